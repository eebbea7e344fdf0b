from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.engine.compiled import loading
from broker.garbage_collection import NEW_OBJECTS_BEFORE_A_SEARCH

QUICK = "tests.engine.quick_loop"


@pytest.fixture
def another_loop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[bool]]:
    """A loop that loads quickly; yields, for each call of ``gc.freeze``, whether its module was loaded."""
    frozen: list[bool] = []
    before = gc.get_threshold()
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(QUICK in sys.modules))
    monkeypatch.setattr(loading, "mode", "always")
    monkeypatch.setattr(loading, "_read_modules", {})
    monkeypatch.setattr(loading, "_COMPILER", "json")
    monkeypatch.setattr(loading, "_OF_CHUNKS", QUICK)
    monkeypatch.setattr(loading.function_cache, "other_folder", tmp_path / "functions")
    monkeypatch.delitem(sys.modules, QUICK, raising=False)
    yield frozen
    gc.set_threshold(*before)


def test_objects_of_a_loaded_loop_are_excluded_from_garbage_collection(another_loop: list[bool]) -> None:
    assert loading.load_compiled_loop(1) is loading.load_compiled_loop(1) is sys.modules[QUICK]
    assert another_loop == [True]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((700, 10, 7), (NEW_OBJECTS_BEFORE_A_SEARCH, 10, 7)),
        ((50_000, 10, 7), (50_000, 10, 7)),
        ((0, 10, 7), (0, 10, 7)),
    ],
)
def test_garbage_collection_runs_less_often_and_stays_off_where_it_was_off(
    another_loop: list[bool], before: tuple[int, int, int], after: tuple[int, int, int]
) -> None:
    gc.set_threshold(*before)
    loading.load_compiled_loop(1)
    assert gc.get_threshold()[:2] == after[:2]
    loading.load_compiled_loop(1)
    assert gc.get_threshold()[:2] == after[:2]

"""The loop is loaded where it pays, compiled by another process, and done without where it cannot be."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.compilation import background, compilation, kept_functions
from broker.engine.compiled import jit, loading


class Compiler:
    """Stands for the process that compiles."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self.command, self.code = command, None

    def kill(self) -> None:
        self.code = -9

    def poll(self) -> int | None:
        return self.code


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder for compiled functions of a process that has decided nothing; nothing is in it."""
    monkeypatch.setattr(loading, "mode", "where it pays")
    monkeypatch.setattr(loading, "_seen", 0)
    monkeypatch.setattr(loading.importlib, "import_module", lambda name: name)
    monkeypatch.setattr(loading.gc, "freeze", lambda: None)
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(loading, "is_compiled", loading.is_compiled)
    monkeypatch.setattr(compilation.subprocess, "Popen", Compiler)
    monkeypatch.setattr(jit, "other_folder", tmp_path / "kept")
    background._compilation.cache_clear()
    background.install()
    yield tmp_path / "kept"
    background._compilation.cache_clear()


def test_the_loop_is_loaded_where_it_pays(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.mkdir()
    kept_functions.ready_file(kept).touch()
    assert [loading.loop_for(chunks) is not None for chunks in (900, 1_000, 100, 1)] == [False, False, True, True]
    assert background._compilation().process is None
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    assert loading.loop_for(5_000) is None


def test_cycles_go_on_in_python_until_another_process_has_compiled_it(kept: Path) -> None:
    assert loading.loop_for(3_000) is None
    process = background._compilation().process
    assert loading.loop_for(3_000) is None
    assert isinstance(process, Compiler)
    assert background._compilation().process is process
    assert process.command == [sys.executable, "-m", "broker.compilation.warm_up", str(kept)]
    process.code = 0  # it ends between two cycles
    kept_functions.ready_file(kept).touch()
    assert loading.loop_for(3_000) is not None


def test_a_loop_that_cannot_be_compiled_is_done_without(kept: Path, caplog: pytest.LogCaptureFixture) -> None:
    loading.loop_for(3_000)
    process = background._compilation().process
    assert isinstance(process, Compiler)
    process.code = 1
    with caplog.at_level(logging.WARNING):
        assert [loading.loop_for(3_000) for _ in range(3)] == [None, None, None]
    (said,) = caplog.messages
    assert "exit code 1" in said
    assert str(kept / "warm_up.log") in said
    assert background._compilation().process is process


def test_a_process_waits_for_the_compiler_only_if_it_asks_to(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "mode", "always")
    assert loading.loop_for(1) is not None
    assert background._compilation().process is None


def test_each_compiler_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before = jit.folder()
    monkeypatch.setattr(jit, "version", lambda name: "another")
    assert before != jit.folder()
    assert before.parent == jit.folder().parent


def test_a_folder_that_cannot_be_written_is_replaced_by_one_that_goes_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(jit, "other_folder", tmp_path / "file" / "kept")
    removed: list[Any] = []
    monkeypatch.setattr(kept_functions.atexit, "register", lambda *call, **options: removed.append(call))
    own = kept_functions.folder()
    assert own.is_dir()
    assert jit.folder() == own == kept_functions.folder()
    assert removed == [(shutil.rmtree, own)]
    own.rmdir()


def test_the_process_that_compiles_says_in_the_folder_that_all_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="there is no compiler here")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # the functions as they are: compiling is another test's
    subprocess.run([sys.executable, "-m", compilation._MODULE, str(tmp_path)], check=True)
    assert kept_functions.ready_file(tmp_path).exists()

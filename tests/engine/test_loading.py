from __future__ import annotations

import gc
import sys

import pytest

from broker.engine.compiled import loading


def test_what_a_loop_brings_with_it_is_not_searched_for_unreachable_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("colorsys" in sys.modules))
    monkeypatch.setattr(loading, "mode", "always")
    monkeypatch.setattr(loading, "_COMPILER", "json")
    monkeypatch.setattr(loading, "_OF_CHUNKS", "colorsys")
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert loading.loop_for(1) is loading.loop_for(1) is sys.modules["colorsys"]
    assert frozen == [True]

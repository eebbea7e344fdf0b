"""The endpoints of a token are looked up once while the storages do not change."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from broker.brokerages.production_task import assign as module
from broker.brokerages.production_task.assign import NucleusOutputs
from broker.rules.production_task.storage_tokens import endpoint_for
from tests.engine.task.task_works import nuclei

TOKENS = ("A_DISK", "_DISK", "", "nowhere")


def test_a_token_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    grid, lookups = nuclei(), Counter[str]()
    outputs = NucleusOutputs(grid)

    def counting_lookup(token: str, *rest: Any) -> int:
        lookups[token] += 1
        return endpoint_for(token, *rest)

    monkeypatch.setattr(module, "endpoint_for", counting_lookup)
    first = [outputs.own(token).tolist() for token in TOKENS]
    names = [[None if position < 0 else str(grid.storages.name[position]) for position in row] for row in first]
    all_names = ["A_DISK", "B_DISK", "C_DISK", "S_DISK"]
    assert names == [["A_DISK", None, None, None], all_names, all_names, [None] * 4]
    assert [outputs.own(token).tolist() for token in TOKENS] == first
    assert lookups == dict.fromkeys(TOKENS, len(all_names))


def test_the_cache_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = NucleusOutputs(nuclei())
    expected = [outputs.own(token).tolist() for token in TOKENS]
    monkeypatch.setattr(module, "MOST_TOKENS", 2)
    small_outputs = NucleusOutputs(nuclei())
    assert [small_outputs.own(token).tolist() for token in (*TOKENS, *TOKENS)] == [*expected, *expected]
    assert len(small_outputs._known) <= 2

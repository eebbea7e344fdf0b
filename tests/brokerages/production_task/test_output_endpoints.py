"""Endpoints of tokens are looked up once for as long as the storages stay as they are."""

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
    grid, asked = nuclei(), Counter[str]()
    known = NucleusOutputs(grid)

    def counted(token: str, *rest: Any) -> int:
        asked[token] += 1
        return endpoint_for(token, *rest)

    monkeypatch.setattr(module, "endpoint_for", counted)
    first = [known.own(token).tolist() for token in TOKENS]
    names = [[None if at < 0 else str(grid.storages.name[at]) for at in row] for row in first]
    every = ["A_DISK", "B_DISK", "C_DISK", "S_DISK"]
    assert names == [["A_DISK", None, None, None], every, every, [None] * 4]
    assert [known.own(token).tolist() for token in TOKENS] == first
    assert asked == dict.fromkeys(TOKENS, len(every))


def test_tokens_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    known = NucleusOutputs(nuclei())
    expected = [known.own(token).tolist() for token in TOKENS]
    monkeypatch.setattr(module, "MOST_TOKENS", 2)
    few = NucleusOutputs(nuclei())
    assert [few.own(token).tolist() for token in (*TOKENS, *TOKENS)] == [*expected, *expected]
    assert len(few._known) <= 2

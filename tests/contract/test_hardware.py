"""Hardware requests against queues: the expected outcome of each case, and the reason of each refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.domain.queues import QueueOffer
from broker.matching.explanation import explain
from broker.matching.match_queue import match_queue
from broker.matching.need import need_of
from broker.matching.outcomes import Outcome
from broker.matching.requirement import canonical
from tests.contract.offers import HERE, no_sources, offer_of

DATA = json.loads((HERE / "hardware.json").read_text(encoding="utf-8"))
CASES = DATA["cases"]


def outcome_at(asks: str, offer: QueueOffer) -> Outcome:
    return match_queue(need_of(asks, None), offer, no_sources())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_the_outcome(case: dict[str, Any]) -> None:
    offer, need = offer_of(case, DATA["gpus"]), need_of(case["asks"], None)
    outcome = match_queue(need, offer, no_sources())
    assert outcome.code == case["outcome"]
    if outcome != Outcome.FITS:
        assert explain(need, offer, outcome).part == outcome.code


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_the_canonical_form_gives_the_same_outcome(case: dict[str, Any]) -> None:
    need = need_of(case["asks"], None)
    if need.fault is None:
        assert outcome_at(canonical(need.requirement), offer_of(case, DATA["gpus"])).code == case["outcome"]


def test_case_names_are_unique() -> None:
    names = [case["case"] for case in CASES]
    assert len(names) == len(set(names)) == 118

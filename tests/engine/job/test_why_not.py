"""Why a queue was not chosen."""

from __future__ import annotations

from typing import Any

import pytest

from broker.domain.decisions import Observation
from broker.engine.job.why_not import why_not
from broker.engine.shared.answer import CandidateVerdict
from broker.snapshot.raw import SourceState
from tests.engine.toy_cycle import cycle, only, work
from tests.engine.toy_rules import AtMost, Factor, Toy, mask
from tests.snapshot.raw_grid import queue, small_grid


def answers_for(name: str, *filters: Any, chunks: Any = None, **more: Any) -> list[CandidateVerdict]:
    toy_cycle = cycle(chunks or work(currentpriority=500.0), filters, **more)
    return why_not(toy_cycle, only(toy_cycle), name)


def test_the_deciding_rule_with_its_observation() -> None:
    (answer,) = answers_for("N_PLAIN", Toy("a", mask([0, 1, 1, 1, 1])), Toy("b", mask([0])))
    assert (answer.queue, answer.code, answer.rule, answer.kind) == ("N_PLAIN", "code_a", "a", "persistent")
    assert answer.title == "Title of a"
    assert answer.observation == Observation("N_PLAIN", "==", 1.0, "-", "rule")


def test_a_unified_queue_has_an_answer_for_each_pseudo_queue() -> None:
    first, second = answers_for("N_UCORE", Toy("a", mask([1, 1, 0, 1, 1]), kind="temporary"))
    assert (first.queue, first.code) == ("N_UCORE/MCORE", "chosen")
    assert (second.queue, second.code, second.kind) == ("N_UCORE/SCORE", "code_a", "temporary")
    assert [answer.queue for answer in answers_for("N_UCORE/SCORE")] == ["N_UCORE/SCORE"]


@pytest.mark.parametrize("name", ["GONE", "", "N_UCORE/", "%", "n_plain"])
def test_a_name_that_is_no_queue(name: str) -> None:
    (answer,) = answers_for(name)
    assert (answer.code, answer.observation) == ("unknown_queue", None)


def test_queues_that_were_never_candidates() -> None:
    grid = small_grid()
    grid["schedconfig_json"] += [queue("ANALY", type="analysis")]
    assert answers_for("ANALY", grid=grid)[0].code == "not_production"
    assert answers_for("S_TEST")[0].code == "test_queue"
    (answer,) = answers_for("S_PLAIN", chunks=work(site="N_PLAIN"))
    assert answer.code == "not_preassigned"
    assert answer.observation is not None
    assert answer.observation.limit == "N_PLAIN"
    assert answers_for("S_TEST", chunks=work(site="S_TEST"))[0].code == "chosen"


def test_a_source_that_could_not_be_used() -> None:
    states = (SourceState("links", "stale", 5, 99.0, 60.0),)
    (answer,) = answers_for("N_PLAIN", Toy("a", mask([1]), sources=("links",)), states=states)
    assert (answer.code, answer.rule) == ("unknown_a", "a")
    assert answer.observation == Observation(99.0, "<=", 60.0, "s", "source.links", {"state": "stale"})


def test_an_input_that_was_missing() -> None:
    (answer,) = answers_for("N_PLAIN", Toy("a", mask([1]), unknown=mask([1])))
    assert (answer.code, answer.observation) == ("unknown_a", None)


def test_a_cut_after_weighing() -> None:
    (answer,) = answers_for("S_PLAIN", cuts=[AtMost(-1)])
    assert (answer.code, answer.kind) == ("at_most", "ranking")
    assert answer.observation == Observation(0.0, "<=", -1, "jobs", "rule")


def test_not_among_the_best() -> None:
    grid = small_grid()
    grid["schedconfig_json"] += [queue(f"Z{index:02}") for index in range(12)]
    (answer,) = answers_for("Z11", grid=grid, chunks=work(currentpriority=500.0, gshare="Other"))
    assert answer.code == "low_weight"
    assert answer.observation == Observation(1.0, ">", 1.0, "weight", "rule", {"chosen": 10})
    (answer,) = answers_for("Z11", grid=grid, chunks=work(currentpriority=100.0, gshare="Other"))
    assert answer.code == "others_bootstrap"


def test_a_weight_that_is_no_number() -> None:
    (answer,) = answers_for("S_PLAIN", weights=[Factor("odd", float("nan"))])
    assert (answer.code, answer.observation) == ("weight_unknown", None)


def test_a_chunk_that_waits_for_another_reason() -> None:
    (answer,) = answers_for("S_PLAIN", chunks=work(nucleus="GONE"))
    assert (answer.code, answer.rule, answer.kind) == ("unknown_nucleus", "input", "temporary")

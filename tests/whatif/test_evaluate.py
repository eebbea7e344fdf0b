"""Stored cycles compared with themselves, with other values and with other rules; what is deducted on both sides."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections import Counter

import pytest

from broker import resources
from broker.brokerages.base import ReplayedDecision
from broker.brokerages.profile import read_profile, rules_of
from broker.brokerages.registry import brokerage as brokerage_of, decode_batches, replay_decisions
from broker.codec.compression import unpack_work
from broker.codec.work_codec import Body, unpacked
from broker.gdpconfig.proposals import proposed
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import decode
from broker.whatif.model import evaluate
from broker.whatif.model.cases import Case, Change, ProfileRules
from broker.whatif.model.comparison import Difference, Totals
from broker.whatif.model.evaluate import CannotDecideAgain, decide_case
from tests.brokerages.small_grid import TASK
from tests.whatif.stored import ANALYSIS, JOBS, RULES, TASKS, change

BROKERAGES = (JOBS, TASKS, ANALYSIS)
#: For each brokerage a change by which something becomes different.
TELLING = {
    JOBS: change("MIN_WEIGHT_managed=1000000"),
    TASKS: change(rules=("free_space=off",)),
    ANALYSIS: change(rules=("no_input_data=off",)),
}


def decided(case: Case, *changes: Change) -> list[Difference]:
    return decide_case(dataclasses.replace(case, id=f"{case.id} {id(changes)}"), RULES, changes)


def totals_of(case: Case, *changes: Change) -> Totals:
    return decided(case, *changes)[0].totals[case.brokerage]


def again(case: Case, other: Change) -> list[ReplayedDecision]:
    """The cycle decided whole, with every explanation: what the quick way must agree with."""
    parts = {name: decode(*packed) for name, packed in case.snapshot.parts.items()}
    snapshot = build_snapshot(case.snapshot.id, case.snapshot.taken_at, parts, case.snapshot.states)
    profile = other.rules.profile
    rules, asked = rules_of(profile, case.brokerage), brokerage_of(case.brokerage)
    works = decode_batches(asked, [one.work for one in case.decisions])
    tuning_of = proposed(case.published, other.proposals).tuning
    return replay_decisions(asked, snapshot, tuning_of, works, case.seed, rules)


@pytest.mark.slow
def test_a_profile_that_places_jobs_together_and_reads_other_queues(cases: dict[str, Case]) -> None:
    text = shipped("flow").replace("extends: seed", "extends: panda")
    other, case = Change((), ProfileRules(read_profile(text, shipped))), cases[JOBS]
    whole, found = again(case, other), totals_of(case, other)
    steps = [step for one in whole for step in one.decision.funnel]
    assert found.rejected_after.total() == sum(step.before - step.after for step in steps)
    assert found.candidates_after == Counter(len(one.decision.candidates) for one in whole)
    assert found.jobs_after == sum((Counter(one.assigned) for one in whole), Counter())


@pytest.mark.parametrize("brokerage", BROKERAGES)
@pytest.mark.parametrize("engine", [None, "0.0.1"])
def test_with_nothing_changed_nothing_is_different(cases: dict[str, Case], brokerage: str, engine: str | None) -> None:
    case = dataclasses.replace(cases[brokerage], engine=engine or cases[brokerage].engine)
    found = totals_of(case, Change((), RULES))
    assert found.decisions == len(case.decisions) > 0
    assert (found.changed, found.jobs_moved, found.gained, found.lost) == (0, 0, Counter(), Counter())
    assert found.jobs_before == sum((Counter(one.assigned) for one in case.decisions), Counter())
    assert found.jobs_before.total() > 0
    assert found.rejected_before == found.rejected_after


def shipped(name: str) -> str:
    return resources.path(f"config/profiles/{name}.yaml").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("brokerage", BROKERAGES)
def test_a_profile_that_reads_other_queues_and_figures(cases: dict[str, Case], brokerage: str) -> None:
    """PanDA's profile has the unified queues as well, and asks for sources that the stored snapshot lacks."""
    other = Change((), ProfileRules(read_profile(shipped("panda"), shipped)))
    case = cases[brokerage]
    whole, found = again(case, other), totals_of(case, other)
    assert found.decisions == len(whole)
    assert found.candidates_after == Counter(len(one.decision.candidates) for one in whole)
    assert found.candidates_before == totals_of(case, Change((), RULES)).candidates_before
    assert found.jobs_after == sum((Counter(one.assigned) for one in whole), Counter())


@pytest.mark.parametrize("brokerage", BROKERAGES)
@pytest.mark.parametrize("engine", [None, "0.0.1"])
def test_the_quick_way_agrees_with_deciding_whole(cases: dict[str, Case], brokerage: str, engine: str | None) -> None:
    case = dataclasses.replace(cases[brokerage], engine=engine or cases[brokerage].engine)
    whole = again(case, TELLING[brokerage])
    found = totals_of(case, TELLING[brokerage])
    assert found.jobs_after == sum((Counter(one.assigned) for one in whole), Counter())
    assert found.candidates_after == Counter(len(one.decision.candidates) for one in whole)
    assert Counter(after for (_, after), n in found.outcomes.items() for _ in range(n)) == Counter(
        one.decision.outcome for one in whole
    )
    cut: Counter[str] = Counter()
    for one in whole:
        cut.update({step.code: step.before - step.after for step in one.decision.funnel if step.before > step.after})
    assert found.rejected_after == cut


def test_tasks_lose_their_queues_and_the_reason_is_told(cases: dict[str, Case]) -> None:
    (found,) = decided(cases[JOBS], TELLING[JOBS])
    totals = found.totals[JOBS]
    assert totals.outcomes == {("brokered", "pending"): 2, ("pending", "pending"): 1}
    assert (totals.changed, totals.losing_last, totals.gaining_first) == (2, 2, 0)
    assert found.tasks_losing_last() == [TASK, TASK + 1]
    first = found.tasks[JOBS, TASK]
    assert first.loses_last_queue and set(first.lost.values()) == {"below_min_weight"} and not first.gained
    assert first.jobs_before.total() == 150 and not first.jobs_after
    assert totals.jobs_moved == totals.jobs_before.total() == 190


def test_a_task_gets_its_first_queue_when_a_rule_is_off(cases: dict[str, Case]) -> None:
    (found,) = decided(cases[JOBS], change(rules=("lowmemory=off",)))
    third = found.tasks[JOBS, TASK + 2]
    assert third.gains_first_queue and set(third.gained.values()) == {"lowmemory"}
    assert third.outcomes == {("pending", "brokered"): 1}
    assert third.jobs_after.total() == 20  # cut anew: nothing was written of it
    assert found.totals[JOBS].rejected_after["lowmemory"] == 0 < found.totals[JOBS].rejected_before["lowmemory"]


def test_what_the_first_task_places_is_deducted_for_the_second(cases: dict[str, Case]) -> None:
    case, nearby = cases[JOBS], change(rules=("data_availability=off", "nucleus_boost=off"))
    whole = again(case, nearby)
    assert whole[0].assigned != case.decisions[0].assigned
    second = dataclasses.replace(case, decisions=case.decisions[1:], id="second alone")
    alone, together = totals_of(second, nearby), totals_of(case, nearby)
    assert together.jobs_after - Counter(whole[0].assigned) == Counter(whole[1].assigned)
    assert alone.jobs_after != Counter(whole[1].assigned)


def test_those_that_follow_find_what_is_placed_otherwise(cases: dict[str, Case]) -> None:
    # the one without a queue comes first: what it gets is all that differs for the others
    case, lighter = cases[JOBS], change(rules=("lowmemory=off",))
    last, *others = case.decisions[::-1]
    case = dataclasses.replace(case, decisions=(last, *others[::-1]), engine="0.0.1", id="the last one first")
    whole, before = again(case, lighter), again(case, Change((), RULES))
    assert [one.decision.outcome for one in before] == ["pending", "brokered", "brokered"]
    weights = [[one.decision.candidates[0].weight for one in side[1:]] for side in (before, whole)]
    assert weights[0] != weights[1]
    (found,) = decided(case, lighter)
    assert found.totals[JOBS].jobs_after == sum((Counter(one.assigned) for one in whole), Counter())
    assert found.totals[JOBS].candidates_after == Counter(len(one.decision.candidates) for one in whole)


def without_cuts(case: Case) -> Case:
    """The case as it was stored by a version that did not keep how chunks are cut."""
    decisions = []
    for one in case.decisions:
        body = json.loads(unpack_work(one.work, 10**7))
        del body["cut"]
        decisions.append(dataclasses.replace(one, work=zlib.compress(json.dumps(body).encode())))
    return dataclasses.replace(case, decisions=tuple(decisions), id="without cuts")


@pytest.mark.parametrize("engine", [None, "0.0.1"])
def test_chunks_that_cannot_be_cut_are_given_out_by_number(cases: dict[str, Case], engine: str | None) -> None:
    case = without_cuts(cases[JOBS])
    case = dataclasses.replace(case, engine=engine or case.engine)
    same = totals_of(case, Change((), RULES))
    assert (same.changed, same.jobs_moved, same.jobs_before.total()) == (0, 0, 190)
    (found,) = decided(case, change(rules=("lowmemory=off",)))
    assert found.tasks[JOBS, TASK + 2].jobs_after.total() == 20  # one a file
    assert totals_of(case, TELLING[JOBS]).jobs_after.total() == 0


def test_several_values_on_the_same_cycle(cases: dict[str, Case]) -> None:
    changes = [change(f"MIN_WEIGHT_managed={value}") for value in (0, 1_000_000, 0)]
    first, second, third = decided(cases[JOBS], *changes)
    assert first == third != second
    assert first.total("changed") == 0


def test_a_damaged_snapshot_or_work_is_told_by_name(cases: dict[str, Case]) -> None:
    case = cases[JOBS]
    digest, data = case.snapshot.parts["queues"]
    parts = {**case.snapshot.parts, "queues": (digest, data[:-9] + b"damaged!!")}
    with pytest.raises(CannotDecideAgain, match=f"(?s)queues|{digest[:12]}"):
        decided(dataclasses.replace(case, snapshot=dataclasses.replace(case.snapshot, parts=parts)), Change((), RULES))
    broken = dataclasses.replace(case.decisions[0], work=b"broken")
    with pytest.raises(CannotDecideAgain, match="work of a decision cannot be read"):
        decided(dataclasses.replace(case, decisions=(broken, *case.decisions[1:])), Change((), RULES))


def test_work_that_is_as_in_the_cycle_before_is_not_unpacked_again(
    cases: dict[str, Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []

    def noted(work: bytes) -> Body:
        seen.append(work)
        return unpacked(work)

    monkeypatch.setattr(evaluate, "unpacked_for_many", noted)
    case = cases[JOBS]
    works = [one.work for one in case.decisions]
    for one, unpacked_now in (
        (cases[TASKS], len(cases[TASKS].decisions)),
        (case, len(works)),
        (case, 0),
        (dataclasses.replace(case, decisions=case.decisions[1:]), 0),
        (case, 1),  # the first chunk was not in the cycle before
    ):
        seen.clear()
        evaluate.Prepared(one, RULES)
        assert len(seen) == unpacked_now
    assert seen == works[:1]

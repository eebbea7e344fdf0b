"""Stored cycles compared with themselves, with other values and with other rules; deductions on both sides."""

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
#: For each brokerage, a change that has an effect.
EFFECTIVE = {
    JOBS: change("MIN_WEIGHT_managed=1000000"),
    TASKS: change(rules=("free_space=off",)),
    ANALYSIS: change(rules=("no_input_data=off",)),
}


def differences_of(case: Case, *changes: Change) -> list[Difference]:
    return decide_case(dataclasses.replace(case, id=f"{case.id} {id(changes)}"), RULES, changes)


def totals_of(case: Case, *changes: Change) -> Totals:
    return differences_of(case, *changes)[0].totals[case.brokerage]


def decide_whole(case: Case, variant: Change) -> list[ReplayedDecision]:
    """The whole cycle decided again with every explanation: the reference for the quick way."""
    parts = {name: decode(*packed) for name, packed in case.snapshot.parts.items()}
    snapshot = build_snapshot(case.snapshot.id, case.snapshot.taken_at, parts, case.snapshot.states)
    profile = variant.rules.profile
    rules, brokerage = rules_of(profile, case.brokerage), brokerage_of(case.brokerage)
    works = decode_batches(brokerage, [outcome.work for outcome in case.decisions])
    tuning_of = proposed(case.published, variant.proposals).tuning
    return replay_decisions(brokerage, snapshot, tuning_of, works, case.seed, rules)


@pytest.mark.slow
def test_a_profile_that_places_jobs_together_and_reads_other_queues(cases: dict[str, Case]) -> None:
    text = shipped("flow").replace("extends: seed", "extends: panda")
    variant, case = Change((), ProfileRules(read_profile(text, shipped))), cases[JOBS]
    whole, totals = decide_whole(case, variant), totals_of(case, variant)
    steps = [step for replayed in whole for step in replayed.decision.funnel]
    assert totals.rejected_after.total() == sum(step.before - step.after for step in steps)
    assert totals.candidates_after == Counter(len(replayed.decision.candidates) for replayed in whole)
    assert totals.jobs_after == sum((Counter(replayed.assigned) for replayed in whole), Counter())


@pytest.mark.parametrize("brokerage", BROKERAGES)
@pytest.mark.parametrize("engine", [None, "0.0.1"])
def test_without_a_change_nothing_differs(cases: dict[str, Case], brokerage: str, engine: str | None) -> None:
    case = dataclasses.replace(cases[brokerage], engine=engine or cases[brokerage].engine)
    totals = totals_of(case, Change((), RULES))
    assert totals.decisions == len(case.decisions) > 0
    assert (totals.changed, totals.jobs_moved, totals.gained, totals.lost) == (0, 0, Counter(), Counter())
    assert totals.jobs_before == sum((Counter(outcome.assigned) for outcome in case.decisions), Counter())
    assert totals.jobs_before.total() > 0
    assert totals.rejected_before == totals.rejected_after


def shipped(name: str) -> str:
    return resources.path(f"config/profiles/{name}.yaml").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("brokerage", BROKERAGES)
def test_a_profile_that_reads_other_queues_and_figures(cases: dict[str, Case], brokerage: str) -> None:
    """PanDA's profile also has the unified queues, and reads sources that the stored snapshot lacks."""
    variant = Change((), ProfileRules(read_profile(shipped("panda"), shipped)))
    case = cases[brokerage]
    whole, totals = decide_whole(case, variant), totals_of(case, variant)
    assert totals.decisions == len(whole)
    assert totals.candidates_after == Counter(len(replayed.decision.candidates) for replayed in whole)
    assert totals.candidates_before == totals_of(case, Change((), RULES)).candidates_before
    assert totals.jobs_after == sum((Counter(replayed.assigned) for replayed in whole), Counter())


@pytest.mark.parametrize("brokerage", BROKERAGES)
@pytest.mark.parametrize("engine", [None, "0.0.1"])
def test_the_quick_way_agrees_with_deciding_whole(cases: dict[str, Case], brokerage: str, engine: str | None) -> None:
    case = dataclasses.replace(cases[brokerage], engine=engine or cases[brokerage].engine)
    whole = decide_whole(case, EFFECTIVE[brokerage])
    totals = totals_of(case, EFFECTIVE[brokerage])
    assert totals.jobs_after == sum((Counter(replayed.assigned) for replayed in whole), Counter())
    assert totals.candidates_after == Counter(len(replayed.decision.candidates) for replayed in whole)
    assert Counter(after for (_, after), n in totals.outcomes.items() for _ in range(n)) == Counter(
        replayed.decision.outcome for replayed in whole
    )
    cut: Counter[str] = Counter()
    for replayed in whole:
        cut.update(
            {step.code: step.before - step.after for step in replayed.decision.funnel if step.before > step.after}
        )
    assert totals.rejected_after == cut


def test_tasks_lose_their_queues_with_a_reason(cases: dict[str, Case]) -> None:
    (difference,) = differences_of(cases[JOBS], EFFECTIVE[JOBS])
    totals = difference.totals[JOBS]
    assert totals.outcomes == {("brokered", "pending"): 2, ("pending", "pending"): 1}
    assert (totals.changed, totals.losing_last, totals.gaining_first) == (2, 2, 0)
    assert difference.tasks_losing_last() == [TASK, TASK + 1]
    first = difference.tasks[JOBS, TASK]
    assert first.loses_last_queue and set(first.lost.values()) == {"below_min_weight"} and not first.gained
    assert first.jobs_before.total() == 150 and not first.jobs_after
    assert totals.jobs_moved == totals.jobs_before.total() == 190


def test_a_task_gets_its_first_queue_when_a_rule_is_off(cases: dict[str, Case]) -> None:
    (difference,) = differences_of(cases[JOBS], change(rules=("lowmemory=off",)))
    third = difference.tasks[JOBS, TASK + 2]
    assert third.gains_first_queue and set(third.gained.values()) == {"lowmemory"}
    assert third.outcomes == {("pending", "brokered"): 1}
    assert third.jobs_after.total() == 20  # cut anew: the cycle wrote no jobs for it
    assert (
        difference.totals[JOBS].rejected_after["lowmemory"] == 0 < difference.totals[JOBS].rejected_before["lowmemory"]
    )


def test_jobs_of_the_first_task_are_deducted_for_the_second(cases: dict[str, Case]) -> None:
    case, nearby = cases[JOBS], change(rules=("data_availability=off", "nucleus_boost=off"))
    whole = decide_whole(case, nearby)
    assert whole[0].assigned != case.decisions[0].assigned
    second = dataclasses.replace(case, decisions=case.decisions[1:], id="second alone")
    alone, together = totals_of(second, nearby), totals_of(case, nearby)
    assert together.jobs_after - Counter(whole[0].assigned) == Counter(whole[1].assigned)
    assert alone.jobs_after != Counter(whole[1].assigned)


def test_later_tasks_see_the_changed_placements(cases: dict[str, Case]) -> None:
    # the task without a queue comes first: only its jobs change the situation of the others
    case, lighter = cases[JOBS], change(rules=("lowmemory=off",))
    last, *others = case.decisions[::-1]
    case = dataclasses.replace(case, decisions=(last, *others[::-1]), engine="0.0.1", id="the last one first")
    whole, before = decide_whole(case, lighter), decide_whole(case, Change((), RULES))
    assert [replayed.decision.outcome for replayed in before] == ["pending", "brokered", "brokered"]
    weights = [[replayed.decision.candidates[0].weight for replayed in side[1:]] for side in (before, whole)]
    assert weights[0] != weights[1]
    (difference,) = differences_of(case, lighter)
    assert difference.totals[JOBS].jobs_after == sum((Counter(replayed.assigned) for replayed in whole), Counter())
    assert difference.totals[JOBS].candidates_after == Counter(len(replayed.decision.candidates) for replayed in whole)


def without_cuts(case: Case) -> Case:
    """The case as stored by a version that did not record how chunks are cut."""
    decisions = []
    for outcome in case.decisions:
        body = json.loads(unpack_work(outcome.work, 10**7))
        del body["cut"]
        decisions.append(dataclasses.replace(outcome, work=zlib.compress(json.dumps(body).encode())))
    return dataclasses.replace(case, decisions=tuple(decisions), id="without cuts")


@pytest.mark.parametrize("engine", [None, "0.0.1"])
def test_chunks_without_stored_cuts_are_split_by_file_count(cases: dict[str, Case], engine: str | None) -> None:
    case = without_cuts(cases[JOBS])
    case = dataclasses.replace(case, engine=engine or case.engine)
    unchanged = totals_of(case, Change((), RULES))
    assert (unchanged.changed, unchanged.jobs_moved, unchanged.jobs_before.total()) == (0, 0, 190)
    (difference,) = differences_of(case, change(rules=("lowmemory=off",)))
    assert difference.tasks[JOBS, TASK + 2].jobs_after.total() == 20  # one job per file
    assert totals_of(case, EFFECTIVE[JOBS]).jobs_after.total() == 0


def test_several_values_on_the_same_cycle(cases: dict[str, Case]) -> None:
    changes = [change(f"MIN_WEIGHT_managed={value}") for value in (0, 1_000_000, 0)]
    first, second, third = differences_of(cases[JOBS], *changes)
    assert first == third != second
    assert first.total("changed") == 0


def test_a_damaged_snapshot_or_work_is_named(cases: dict[str, Case]) -> None:
    case = cases[JOBS]
    digest, data = case.snapshot.parts["queues"]
    parts = {**case.snapshot.parts, "queues": (digest, data[:-9] + b"damaged!!")}
    with pytest.raises(CannotDecideAgain, match=f"(?s)queues|{digest[:12]}"):
        differences_of(
            dataclasses.replace(case, snapshot=dataclasses.replace(case.snapshot, parts=parts)), Change((), RULES)
        )
    broken = dataclasses.replace(case.decisions[0], work=b"broken")
    with pytest.raises(CannotDecideAgain, match="work of a decision cannot be read"):
        differences_of(dataclasses.replace(case, decisions=(broken, *case.decisions[1:])), Change((), RULES))


def test_work_unchanged_since_the_previous_cycle_is_not_unpacked_again(
    cases: dict[str, Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked_works: list[bytes] = []

    def record(work: bytes) -> Body:
        unpacked_works.append(work)
        return unpacked(work)

    monkeypatch.setattr(evaluate, "unpacked_for_many", record)
    case = cases[JOBS]
    works = [outcome.work for outcome in case.decisions]
    for next_case, unpacked_now in (
        (cases[TASKS], len(cases[TASKS].decisions)),
        (case, len(works)),
        (case, 0),
        (dataclasses.replace(case, decisions=case.decisions[1:]), 0),
        (case, 1),  # the first chunk was missing from the previous cycle
    ):
        unpacked_works.clear()
        evaluate.UnpackedCycle(next_case, RULES)
        assert len(unpacked_works) == unpacked_now
    assert unpacked_works == works[:1]

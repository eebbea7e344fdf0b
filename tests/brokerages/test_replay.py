"""Deciding stored cycles again: the same, what is deducted within the cycle, other tuning, other rules, other seeds."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from broker import resources
from broker.brokerages.base import ReplayedDecision, Rules
from broker.brokerages.job.brokerage import StoredChunks
from broker.brokerages.production_task.brokerage import StoredTaskBatch
from broker.brokerages.profile import read_profile, rules_of as profile_rules, switched
from broker.brokerages.registry import brokerage as brokerage_of, decode_batches, replay_decisions
from broker.codec.work_codec import WorkCorruptError
from broker.decisions.answers.replay import replay
from broker.domain.arrays import Bools
from broker.domain.decisions import FunnelStep, Observation
from broker.gdpconfig import Tuning
from broker.rules.contract import Filter, JobPairs
from broker.snapshot.snapshot import Snapshot
from broker.store.connection.database import Database
from broker.store.decisions.stored_cycles import StoredCycle, stored_cycles
from broker.store.snapshots.stored_snapshots import stored_snapshot
from tests.brokerages.stored_grids import SEED, store_analyses, store_jobs, store_tasks

Stored = tuple[Snapshot, StoredCycle]


def rules_of(brokerage: str, **switches: bool) -> Rules:
    profile = switched(read_profile(resources.path("config/profiles/seed.yaml").read_text()), switches)
    return profile_rules(profile, brokerage)


def stored(database: Database) -> Stored:
    with database.begin() as connection:
        (cycle,) = stored_cycles(connection)
        return stored_snapshot(connection, cycle.origin.snapshot or ""), cycle


def again(found: Stored, seed: int = SEED, as_stored: bool = False, set: Any = None, **switches: bool) -> Any:
    snapshot, cycle = found
    asked = brokerage_of(cycle.brokerage)
    works = decode_batches(asked, [one.record.work or b"" for one in cycle.decisions])
    rules = rules_of(cycle.brokerage, **switches)

    def tuning_of(vo: str | None) -> Tuning:
        return Tuning(cycle.origin.tuning, vo).with_values(set or {})

    return replay_decisions(asked, snapshot, tuning_of, works, seed, rules, as_stored=as_stored)


@pytest.fixture
def jobs(database: Database) -> Stored:
    store_jobs(database)
    return stored(database)


@pytest.fixture
def tasks(database: Database) -> Stored:
    store_tasks(database)
    return stored(database)


@pytest.fixture
def analyses(database: Database) -> Stored:
    store_analyses(database)
    return stored(database)


def assert_same(found: Stored, got: list[ReplayedDecision]) -> None:
    assert [one.decision for one in got] == [one.record.decision for one in found[1].decisions]
    assert [one.assigned for one in got] == [one.record.assigned for one in found[1].decisions]


@pytest.mark.parametrize("as_stored", [False, True])
@pytest.mark.parametrize("kind", ["jobs", "tasks", "analyses"])
def test_a_stored_cycle_is_decided_again_exactly(kind: str, as_stored: bool, request: pytest.FixtureRequest) -> None:
    found: Stored = request.getfixturevalue(kind)
    assert any(one.record.assigned for one in found[1].decisions)
    assert_same(found, again(found, as_stored=as_stored))


@pytest.mark.parametrize("kind", ["jobs", "tasks"])
def test_what_the_cycle_places_counts_for_those_that_follow(kind: str, request: pytest.FixtureRequest) -> None:
    found: Stored = request.getfixturevalue(kind)
    within, given = again(found), again(found, as_stored=True)
    assert not within[0].before and within[1].before
    assert [one.before for one in within] == [one.before for one in given]
    second = dataclasses.replace(found[1], decisions=found[1].decisions[1:])
    assert_same((found[0], second), again((found[0], second), as_stored=True))
    alone = again((found[0], second))
    assert not alone[0].before
    assert [one.weight for one in alone[0].decision.candidates] != [one.weight for one in within[1].decision.candidates]


def test_another_seed_gives_other_jobs_to_the_same_candidates(jobs: Stored) -> None:
    other = [again(jobs, seed=seed) for seed in range(4)]
    assert {one[0].decision.outcome for one in other} == {"brokered"}
    assert all(one[0].decision.candidates == other[0][0].decision.candidates for one in other)
    assert len({str(one[0].assigned) for one in other}) > 1
    assert {sum(one[0].assigned.values()) for one in other} == {150}


def test_other_tuning_and_fewer_rules(jobs: Stored) -> None:
    assert [one.decision.outcome for one in again(jobs)] == ["brokered", "brokered", "pending"]
    assert "nqueued_low" not in again(jobs)[0].decision.rejected.values()
    lighter = again(jobs, memory_max=False, memory_min=False)
    assert [one.decision.outcome for one in lighter] == ["brokered"] * 3
    assert sum(lighter[2].assigned.values()) == 75  # 25 to each of three queues without jobs
    assert again(jobs, set={"MIN_WEIGHT_managed": 1e6})[0].decision.outcome == "pending"


def test_a_rule_that_others_look_for_may_be_switched_off(analyses: Stored) -> None:
    assert again(analyses, user_queue_length=False)[0].decision.outcome == "brokered"


def test_tasks_of_several_vos_have_their_own_cycles(jobs: Stored) -> None:
    data = [one.record.work or b"" for one in jobs[1].decisions]
    asked = brokerage_of("production_job")
    (one,) = decode_batches(asked, data)
    assert isinstance(one, StoredChunks) and one.vo == "atlas" and one.work is not None
    assert decode_batches(asked, []) == ()


def test_bad_work_is_refused(tasks: Stored) -> None:
    asked, data = brokerage_of("production_task"), [one.record.work or b"" for one in tasks[1].decisions]
    (one,) = decode_batches(asked, data)
    assert isinstance(one, StoredTaskBatch)
    with pytest.raises(WorkCorruptError):
        decode_batches(asked, [b"broken"])
    with pytest.raises(WorkCorruptError, match="no column vo"):
        decode_batches(brokerage_of("production_job"), data)
    with pytest.raises(WorkCorruptError, match="no brokerage of tasks"):
        replay_decisions(asked, tasks[0], Tuning.defaults, [one], SEED, rules_of("production_job"))


class KeepsAll(Filter[JobPairs]):
    """Rejects nothing."""

    name = code = title = "keeps_all"

    def keep(self, pairs: JobPairs) -> Bools:
        return np.ones((1, 1), dtype=np.bool_)

    def observe(self, pairs: JobPairs) -> Observation:
        return Observation(1, "==", 1, "-", "rule")


def test_a_rule_that_rejects_nothing_changes_no_stored_decision(jobs: Stored) -> None:
    snapshot, cycle = jobs
    rules = rules_of(cycle.brokerage)
    more = dataclasses.replace(
        rules, chain=dataclasses.replace(rules.chain, filters=(KeepsAll(), *rules.chain.filters))
    )
    found = replay(cycle.decisions, snapshot, lambda vo: Tuning(cycle.origin.tuning, vo), more)
    assert [one.differences for one in found] == [()] * 3 and all(one.identical for one in found)


@pytest.mark.slow
def test_rules_that_rejected_nothing_in_an_older_funnel_are_not_compared(jobs: Stored) -> None:
    snapshot, cycle = jobs
    first = cycle.decisions[0]
    decision = first.record.decision
    last = decision.funnel[-1].after

    def stored_with(step: FunnelStep) -> list[bool]:
        listed = dataclasses.replace(decision, funnel=(*decision.funnel, step))
        record = dataclasses.replace(first.record, decision=listed)
        tuning = Tuning(cycle.origin.tuning, None)
        changed = [dataclasses.replace(first, record=record), *cycle.decisions[1:]]
        return [one.identical for one in replay(changed, snapshot, lambda vo: tuning, rules_of(cycle.brokerage))]

    assert stored_with(FunnelStep("older", last, last)) == [True, True, True]
    assert stored_with(FunnelStep("older", last, last - 1)) == [False, True, True]

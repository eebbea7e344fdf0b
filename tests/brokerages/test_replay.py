"""Deciding stored cycles again: unchanged, with placements in the cycle, and with other tuning, rules and seeds."""

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
from broker.codec.work_codec import WorkCorruptError, decode_work, encode_work
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


def read_stored(database: Database) -> Stored:
    with database.begin() as connection:
        (cycle,) = stored_cycles(connection)
        return stored_snapshot(connection, cycle.origin.snapshot or ""), cycle


def replay_stored(
    stored: Stored, seed: int = SEED, as_stored: bool = False, values: Any = None, **switches: bool
) -> Any:
    snapshot, cycle = stored
    brokerage = brokerage_of(cycle.brokerage)
    works = decode_batches(brokerage, [original.record.work or b"" for original in cycle.decisions])
    rules = rules_of(cycle.brokerage, **switches)

    def tuning_of(vo: str | None) -> Tuning:
        return Tuning(cycle.origin.tuning, vo).with_values(values or {})

    return replay_decisions(brokerage, snapshot, tuning_of, works, seed, rules, as_stored=as_stored)


@pytest.fixture
def jobs(database: Database) -> Stored:
    store_jobs(database)
    return read_stored(database)


@pytest.fixture
def tasks(database: Database) -> Stored:
    store_tasks(database)
    return read_stored(database)


@pytest.fixture
def analyses(database: Database) -> Stored:
    store_analyses(database)
    return read_stored(database)


def assert_same(stored: Stored, results: list[ReplayedDecision]) -> None:
    assert [result.decision for result in results] == [original.record.decision for original in stored[1].decisions]
    assert [result.assigned for result in results] == [original.record.assigned for original in stored[1].decisions]


@pytest.mark.parametrize("as_stored", [False, True])
@pytest.mark.parametrize("kind", ["jobs", "tasks", "analyses"])
def test_a_stored_cycle_is_decided_again_exactly(kind: str, as_stored: bool, request: pytest.FixtureRequest) -> None:
    stored: Stored = request.getfixturevalue(kind)
    assert any(original.record.assigned for original in stored[1].decisions)
    assert_same(stored, replay_stored(stored, as_stored=as_stored))


@pytest.mark.parametrize("kind", ["jobs", "tasks"])
def test_earlier_placements_of_a_cycle_count_for_later_decisions(kind: str, request: pytest.FixtureRequest) -> None:
    stored: Stored = request.getfixturevalue(kind)
    results, results_as_stored = replay_stored(stored), replay_stored(stored, as_stored=True)
    assert not results[0].before and results[1].before
    assert [result.before for result in results] == [result.before for result in results_as_stored]
    second = dataclasses.replace(stored[1], decisions=stored[1].decisions[1:])
    assert_same((stored[0], second), replay_stored((stored[0], second), as_stored=True))
    results_of_second = replay_stored((stored[0], second))
    assert not results_of_second[0].before
    assert [candidate.weight for candidate in results_of_second[0].decision.candidates] != [
        candidate.weight for candidate in results[1].decision.candidates
    ]


def test_another_seed_distributes_jobs_differently_over_the_same_candidates(jobs: Stored) -> None:
    replays = [replay_stored(jobs, seed=seed) for seed in range(4)]
    assert {results[0].decision.outcome for results in replays} == {"brokered"}
    assert all(results[0].decision.candidates == replays[0][0].decision.candidates for results in replays)
    assert len({str(results[0].assigned) for results in replays}) > 1
    assert {sum(results[0].assigned.values()) for results in replays} == {150}


def test_other_tuning_and_fewer_rules(jobs: Stored) -> None:
    assert [result.decision.outcome for result in replay_stored(jobs)] == ["brokered", "brokered", "pending"]
    assert "nqueued_low" not in replay_stored(jobs)[0].decision.rejected.values()
    results = replay_stored(jobs, memory_max=False, memory_min=False)
    assert [result.decision.outcome for result in results] == ["brokered"] * 3
    assert sum(results[2].assigned.values()) == 75  # 25 to each of three queues without jobs
    assert replay_stored(jobs, values={"MIN_WEIGHT_managed": 1e6})[0].decision.outcome == "pending"


def test_a_rule_that_other_steps_refer_to_can_be_switched_off(analyses: Stored) -> None:
    assert replay_stored(analyses, user_queue_length=False)[0].decision.outcome == "brokered"


def test_tasks_of_several_vos_have_their_own_cycles(jobs: Stored) -> None:
    works = [original.record.work or b"" for original in jobs[1].decisions]
    work = decode_work(works[0])
    other_chunks = dataclasses.replace(work.chunks, vo=np.array(["other"], dtype=np.object_))
    other = encode_work(dataclasses.replace(work, chunks=other_chunks))
    brokerage = brokerage_of("production_job")
    batches = decode_batches(brokerage, [*works, other])
    assert all(isinstance(batch, StoredChunks) for batch in batches)
    assert [(batch.vo, len(batch.jeditaskid)) for batch in batches] == [("atlas", 3), ("other", 1)]
    assert decode_batches(brokerage, []) == ()


def test_bad_work_is_refused(tasks: Stored) -> None:
    brokerage, works = brokerage_of("production_task"), [original.record.work or b"" for original in tasks[1].decisions]
    (batch,) = decode_batches(brokerage, works)
    assert isinstance(batch, StoredTaskBatch)
    with pytest.raises(WorkCorruptError):
        decode_batches(brokerage, [b"broken"])
    with pytest.raises(WorkCorruptError, match="no column vo"):
        decode_batches(brokerage_of("production_job"), works)
    with pytest.raises(WorkCorruptError, match="no brokerage of tasks"):
        replay_decisions(brokerage, tasks[0], Tuning.defaults, [batch], SEED, rules_of("production_job"))


class KeepsAll(Filter[JobPairs]):
    """A filter that rejects nothing."""

    name = code = title = "keeps_all"

    def keep(self, pairs: JobPairs) -> Bools:
        return np.ones((1, 1), dtype=np.bool_)

    def observe(self, pairs: JobPairs) -> Observation:
        return Observation(1, "==", 1, "-", "rule")


def test_a_rule_that_rejects_nothing_changes_no_stored_decision(jobs: Stored) -> None:
    snapshot, cycle = jobs
    rules = rules_of(cycle.brokerage)
    extended_rules = dataclasses.replace(
        rules, chain=dataclasses.replace(rules.chain, filters=(KeepsAll(), *rules.chain.filters))
    )
    results = replay(cycle.decisions, snapshot, lambda vo: Tuning(cycle.origin.tuning, vo), extended_rules)
    assert [result.differences for result in results] == [()] * 3 and all(result.identical for result in results)


@pytest.mark.slow
def test_steps_of_an_older_funnel_that_rejected_nothing_are_not_compared(jobs: Stored) -> None:
    snapshot, cycle = jobs
    first = cycle.decisions[0]
    decision = first.record.decision
    last = decision.funnel[-1].after

    def identical_with(step: FunnelStep) -> list[bool]:
        changed_decision = dataclasses.replace(decision, funnel=(*decision.funnel, step))
        record = dataclasses.replace(first.record, decision=changed_decision)
        tuning = Tuning(cycle.origin.tuning, None)
        changed = [dataclasses.replace(first, record=record), *cycle.decisions[1:]]
        return [result.identical for result in replay(changed, snapshot, lambda vo: tuning, rules_of(cycle.brokerage))]

    assert identical_with(FunnelStep("older", last, last)) == [True, True, True]
    assert identical_with(FunnelStep("older", last, last - 1)) == [False, True, True]

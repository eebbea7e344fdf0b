"""Chunks of different shares and chunks of different blocks can be decided independently."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from broker.brokerages.job.assign import draw_jobs
from broker.domain.arrays import taken
from broker.domain.work import Work
from broker.engine.job import cycle as job_cycle
from broker.engine.job.decision import deciding
from broker.rules.production_job.cuts.cap import Cap
from broker.rules.production_job.weights.running_queued import RunningQueued
from broker.rules.shared.cuts.below_min_weight import BelowMinWeight
from broker.whatif.model.variants import CountedJobs
from tests.engine.toy_cycle import cycle, work

SHARES = ("Simulation", "Reprocessing", "Group")


def work_of_shares(shares: list[str]) -> Work:
    """One chunk for each of the shares, each of a separate task."""
    tasks = [5000 + at for at in range(len(shares))]
    return work(
        len(shares), jeditaskid=tasks, gshare=shares, currentpriority=[100.0 + 30 * at for at in range(len(shares))]
    )


def decisions_for(task_work: Work, jobs: int) -> dict[int, Any]:
    """By task: the reason, the code at each candidate, the jobs by candidate, and the load counted before."""
    toy_cycle = cycle(task_work, load_weights=[RunningQueued()], cuts=[Cap(), BelowMinWeight()])
    decisions = {}
    for result in toy_cycle.results():
        source = CountedJobs(jobs)
        draw_jobs(toy_cycle, result, source, seed=7)
        positions = np.array(sorted(int(result.chosen[place]) for place in source.jobs), dtype=np.int64)
        counts = {int(result.chosen[place]): number for place, number in source.jobs.items()}
        before = toy_cycle.load_before(result.row)
        task = int(task_work.chunks.jeditaskid[result.row])
        decisions[task] = (result.reason, deciding(toy_cycle, result).tolist(), counts, before)
        toy_cycle.add_load(
            result.row, positions, np.array([counts[position] for position in positions.tolist()], dtype=np.int64)
        )
    return decisions


CHUNKS = st.lists(st.sampled_from(SHARES), min_size=1, max_size=9)


@settings(max_examples=25)
@given(shares=CHUNKS, own=st.sets(st.sampled_from(SHARES)), jobs=st.sampled_from([3, 40, 400]))
def test_two_brokers_on_disjoint_shares_decide_as_one(shares: list[str], own: set[str], jobs: int) -> None:
    together = work_of_shares(shares)
    apart: dict[int, Any] = {}
    for mine in (own, set(SHARES) - own):
        rows = np.array([at for at, share in enumerate(shares) if share in mine], dtype=np.int64)
        if len(rows):
            apart |= decisions_for(dataclasses.replace(together, chunks=taken(together.chunks, rows)), jobs)
    assert apart == decisions_for(together, jobs)


@pytest.mark.parametrize("jobs", [3, 400])
def test_blocks_of_any_size_give_the_same_decisions(monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    chunks = work_of_shares([*SHARES, *SHARES[:2], *SHARES[:1] * 5])
    whole = decisions_for(chunks, jobs)
    monkeypatch.setattr(job_cycle, "BLOCK_CELLS", 1)
    for least in (1, 2, 3):
        monkeypatch.setattr(job_cycle, "LEAST_BLOCK", least)
        assert decisions_for(chunks, jobs) == whole


def test_only_the_first_block_is_ranked_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_cycle, "BLOCK_CELLS", 1)
    monkeypatch.setattr(job_cycle, "LEAST_BLOCK", 2)
    toy_cycle = cycle(work_of_shares([SHARES[0]] * 4), load_weights=[RunningQueued()])
    ranked = []
    for result in toy_cycle.results():
        toy_cycle.add_load(result.row, result.chosen[:1], np.array([5]))
        ranked.append(result.block.is_ranked)
    assert ranked == [True, True, False, False]

"""Simulated tasks that wait for a nucleus, in the form that the task brokerage reads from its tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from broker.domain.arrays import floats, texts
from broker.domain.task_work import AssigningTable, OutputTable, PartReplicaTable, PartTable, RemainingTable, TaskWork
from broker.simulation.model.job_states import TaskState
from broker.simulation.model.real.chunk_work import FIRST_DATASET, believed_work, chunk_work, event_hs06s
from broker.simulation.model.real.grid_rows import FIRST_WORK_QUEUE, endpoint
from broker.simulation.model.scenario import Scenario

#: Number of input files passed to the job brokerage, as read by the agent.
HINT_FILES = 10
#: First number of output datasets, above those of the input.
FIRST_OUTPUT = FIRST_DATASET + 10_000_000
#: Token that output requires of an endpoint.
OUTPUT_TOKEN = "ATLASDATADISK"  # noqa: S105 - PanDA's name for it


def task_work(scenario: Scenario, waiting: Sequence[TaskState], brokered: Iterable[TaskState]) -> TaskWork:
    """The tasks in the given order, and the remaining work of tasks that have a nucleus."""
    hint = chunk_work(scenario, waiting, HINT_FILES).work
    return TaskWork(
        _assigning(scenario, waiting),
        OutputTable(
            np.arange(len(waiting)),
            np.array([FIRST_OUTPUT + state.task.number for state in waiting], dtype=np.int64),
            texts(OUTPUT_TOKEN for _ in waiting),
        ),
        *_parts(scenario, waiting),
        _remaining(scenario, brokered),
        dataclasses.replace(hint, chunks=dataclasses.replace(hint.chunks, scout=np.zeros_like(hint.chunks.scout))),
    )


def remaining_hs06s(state: TaskState) -> float:
    """Estimated CPU work of the jobs that are at no queue."""
    return state.jobs_left * state.kind.events * event_hs06s(state)


def _assigning(scenario: Scenario, waiting: Sequence[TaskState]) -> AssigningTable:
    count = len(waiting)
    no, none = np.zeros(count, dtype=np.bool_), texts(None for _ in waiting)
    priority = np.array([round(state.task.priority) for state in waiting], dtype=np.float64)
    return AssigningTable(
        jeditaskid=np.array([state.task.number for state in waiting], dtype=np.int64),
        vo=texts(state.task.vo for state in waiting),
        prodsourcelabel=texts("managed" for _ in waiting),
        gshare=texts(scenario.shares[state.task.share][0] for state in waiting),
        workqueue_id=np.array([FIRST_WORK_QUEUE + state.task.share for state in waiting], dtype=np.float64),
        nucleus=none,
        currentpriority=priority,
        taskpriority=priority,
        iointensity=np.zeros(count),
        frozentime_s=np.full(count, np.nan),
        t1weight=np.zeros(count),
        input_prestaging=no,
        full_chain=np.zeros(count, dtype=np.int64),
        parent_nucleus=none,
        remaining_hs06s=floats(remaining_hs06s(state) for state in waiting),
        fault=texts("" for _ in waiting),
        parent_full_chain=np.zeros(count, dtype=np.int64),
        parent_missing=no,
    )


def _parts(scenario: Scenario, waiting: Sequence[TaskState]) -> tuple[PartTable, PartReplicaTable]:
    """The input dataset of each task, complete at each of its sources."""
    with_input = [(row, state) for row, state in enumerate(waiting) if state.task.sources]
    files = floats(state.task.jobs for _, state in with_input)
    size = floats(state.task.jobs * state.kind.input_gb * 1e9 for _, state in with_input)
    parts = PartTable(
        task=np.array([row for row, _ in with_input], dtype=np.int64),
        datasetid=np.array([FIRST_DATASET + state.task.number for _, state in with_input], dtype=np.int64),
        catalogued=np.ones(len(with_input), dtype=np.bool_),
        files=files,
        bytes=size,
        asked=np.ones(len(with_input), dtype=np.bool_),
    )
    owner = np.array([part for part, (_, state) in enumerate(with_input) for _ in state.task.sources], dtype=np.int64)
    places = [endpoint(scenario.sites[site].name) for _, state in with_input for site in state.task.sources]
    replicas = PartReplicaTable(
        part=owner,
        rse=texts(places),
        is_tape=np.zeros(len(owner), dtype=np.bool_),
        files=files[owner],
        bytes=size[owner],
        complete=np.ones(len(owner), dtype=np.bool_),
    )
    return parts, replicas


def _remaining(scenario: Scenario, brokered: Iterable[TaskState]) -> RemainingTable:
    left: dict[tuple[int, int, float], tuple[float, float]] = {}
    for state in brokered:
        key = (state.nucleus, state.task.share, float(round(state.task.priority)))
        hs06s, stored = left.get(key, (0.0, 0.0))
        events = state.jobs_left * state.kind.events
        left[key] = (hs06s + remaining_hs06s(state), stored + events * float(believed_work(state)["cputime"]))
    keys = sorted(left)
    return RemainingTable(
        texts(scenario.sites[nucleus].name for nucleus, _, _ in keys),
        texts(scenario.vo_of(share) for _, share, _ in keys),
        texts(scenario.shares[share][0] for _, share, _ in keys),
        floats(FIRST_WORK_QUEUE + share for _, share, _ in keys),
        floats(priority for _, _, priority in keys),
        floats(left[key][0] for key in keys),
        floats(left[key][1] for key in keys),
    )

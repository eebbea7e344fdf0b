"""The arrival of a task: the needs of its jobs, and the scouts that run before the others."""

from __future__ import annotations

import dataclasses

import numpy as np

from broker.domain.arrays import Floats
from broker.simulation.model.job_kinds import JobDraws, draw_jobs, draw_memory_used_mb
from broker.simulation.model.job_states import Job, TaskState, new_task
from broker.simulation.model.records import Tally
from broker.simulation.model.right_sizing import MemoryRecord, NeedsOfKind, record_of_new
from broker.simulation.model.scenario import Scenario, Task
from broker.simulation.model.streams import stream


def task_draws(scenario: Scenario, seed: int, task: Task) -> JobDraws:
    """The figures of a task's jobs, the same for every policy.

    Jobs that run from the beginning started earlier, so they have a uniform part of their work left, except whole ones.
    """
    draws = draw_jobs(scenario.kinds[task.kind], task.jobs, seed, task.number, scenario.attempts)
    work = draws.work_hs06s * task.work_factor
    if task.running_at >= 0 and not task.whole:
        work = work * stream(seed, task.number, "work left").random(task.jobs)
    return dataclasses.replace(draws, work_hs06s=work)


def arriving(
    scenario: Scenario, seed: int, task: Task, now_s: float, nucleus: int, needs: NeedsOfKind | None = None
) -> TaskState:
    """The task with all jobs unassigned except those that wait for its scouts; ``needs`` are of earlier tasks."""
    kind = scenario.kinds[task.kind]
    state = new_task(task, kind, task_draws(scenario, seed, task), now_s, nucleus)
    if scenario.memory_slack >= 0:
        used = draw_memory_used_mb(kind, task.jobs, seed, task.number)
        state.memory_used_mb = None if used is None else used * task.memory_factor
        if used is not None and scenario.requests != "asked":
            state.memory_record = _memory_record(scenario, task, NeedsOfKind() if needs is None else needs)
    if scenario.transfer_failures.stage_in > 0:
        state.stage_in_fails = _stage_in_fails(scenario, seed, task)
    if 0 < scenario.scouts < task.jobs and task.running_at < 0 and not task.scouted:
        state.held, state.unassigned = state.unassigned[: -scenario.scouts], state.unassigned[-scenario.scouts :]
    return state


def _memory_record(scenario: Scenario, task: Task, needs: NeedsOfKind) -> MemoryRecord:
    """Known memory of an arriving task; its wider kind has the same processing type, cores and kind of user."""
    requests_mb = needs.asks.get(task.kind, {}).values()
    if scenario.requests != "prior":
        return record_of_new(scenario.requests, requests_mb)
    kind = scenario.kinds[task.kind]
    wider = [
        name
        for name, other in scenario.kinds.items()
        if (other.processingtype, other.cores, other.analysis) == (kind.processingtype, kind.cores, kind.analysis)
    ]
    return record_of_new(
        scenario.requests,
        requests_mb,
        needs.used_of([task.kind]),
        needs.used_of(wider),
        1024.0 * kind.cores * kind.memory_gb_core,
    )


def _stage_in_fails(scenario: Scenario, seed: int, task: Task) -> Floats:
    return stream(seed, task.number, "stage-in failure").random((task.jobs, scenario.attempts))


def end_of_scouts(state: TaskState) -> bool:
    """Whether all scouts of a task have finished or failed for good, and other jobs wait for them."""
    return bool(state.held) and state.open_jobs == len(state.held)


def release(state: TaskState) -> bool:
    """Release the other jobs of a task with the measurements of its scouts; the task is broken if no scout finished.

    A broken task ends: its other jobs count as failed for good. Returns whether the task continues.
    """
    others, state.held = state.held, []
    finished = np.isfinite(state.done_s)
    if not finished.any():
        state.done_s[others] = np.inf
        state.open_jobs = 0
        return False
    state.measured_work_hs06s = float(np.median(state.draws.work_hs06s[finished]))
    state.unassigned = others
    return True


def note_memory(job: Job, scenario: Scenario, tally: Tally, now_s: float, needs: NeedsOfKind, *, killed: bool) -> None:
    """Count the memory that a job held and used while it ran, and update its task and ``needs`` with it."""
    state = job.task
    if state.memory_used_mb is None:
        return
    used_mb = float(state.memory_used_mb[job.index])
    if killed:
        tally.over_memory += 1
        state.memory_kills[job.index] = state.memory_kills.get(job.index, 0) + 1
        used_mb = job.memory_gb * 1024.0 * (1.0 + scenario.memory_slack)
    hours = (now_s - job.started_s) / 3600.0
    memory = tally.memory[int(max(0.0, job.started_s) // 3600.0)]
    memory.requested_gb_h += job.memory_gb * hours
    memory.used_gb_h += used_mb / 1024.0 * hours
    memory.ran += 1
    memory.killed += killed
    if state.memory_record is not None:
        needed = state.memory_record.ended(scenario.requests, used_mb, killed=killed)
        if needed is not None:
            needs.asks.setdefault(state.task.kind, {})[state.task.number] = needed
        if scenario.requests == "prior" and (used := state.memory_record.used) is not None:
            needs.used.setdefault(state.task.kind, {})[state.task.number] = used

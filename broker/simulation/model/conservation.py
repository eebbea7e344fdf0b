"""Invariants that hold at each instant of a simulation: nothing is lost and nothing appears."""

from __future__ import annotations

import numpy as np

from broker.simulation.model.grid import Grid
from broker.simulation.model.job_states import ACTIVATED, RUNNING, STARTING


def violations(grid: Grid) -> list[str]:
    """Current inconsistencies of jobs, cores, memory, bytes and shares; empty if there are none."""
    problems = []
    for number, slots in enumerate(grid.slots):
        name = grid.scenario.queues[number].name
        held = sum(job.cores for job in grid.running[number])
        if held != slots.busy_cores or not 0 <= held <= slots.nodes.total_cores:
            problems.append(f"{name}: {held} cores held, {slots.busy_cores} counted, {slots.nodes.total_cores} there")
        if slots.waiting != len(grid.waiting_jobs[number]):
            problems.append(f"{name}: {len(grid.waiting_jobs[number])} jobs wait, {slots.waiting} counted")
    waiting, starting, running = (grid.counts[:, :, state].sum() for state in (ACTIVATED, STARTING, RUNNING))
    if waiting != sum(len(jobs) for jobs in grid.waiting_jobs):
        problems.append(f"{waiting:.0f} jobs counted as activated")
    if starting + running < sum(len(jobs) for jobs in grid.running):
        problems.append(f"{starting + running:.0f} jobs counted as starting or running")
    problems += [] if grid.workers is None else grid.workers.violations()
    problems += _vos(grid) + _jobs(grid) + _bytes(grid) + _shares(grid)
    return problems


def _vos(grid: Grid) -> list[str]:
    queues = grid.scenario.queues
    jobs_at_queues = [job for jobs in (*grid.running, *grid.waiting_jobs) for job in jobs]
    wrong = [job for job in jobs_at_queues if not queues[job.queue].takes(job.task.task.vo)]
    return [f"{queues[job.queue].name}: a job of VO {job.task.task.vo}" for job in wrong]


def _jobs(grid: Grid) -> list[str]:
    created = grid.arrived_jobs - grid.freed_jobs
    open_jobs = sum(state.open_jobs for state in grid.tasks.values())
    ended = sum(int((~np.isnan(state.done_s)).sum()) for state in grid.tasks.values())
    unassigned = sum(len(state.unassigned) for state in grid.assignable.values())
    at_queues = float(grid.counts.sum())
    held = sum(len(state.held) for state in grid.tasks.values())
    problems = []
    if created != open_jobs + ended:
        problems.append(f"{created} jobs created, {open_jobs} open, {ended} ended")
    if open_jobs != unassigned + held + at_queues:
        problems.append(f"{open_jobs} jobs open, {unassigned} unassigned, {held} held, {at_queues:.0f} at queues")
    return problems


def _bytes(grid: Grid) -> list[str]:
    totals, flying = grid.transfers.network.totals, grid.transfers.network.in_flight()
    problems = []
    if abs(totals.started - totals.arrived - totals.lost - flying) > 1e-6 * max(1.0, totals.started):
        problems.append(f"{totals.started} B sent, {totals.arrived} arrived, {totals.lost} lost, {flying} in flight")
    stored = sum(grid.storages.used) - sum(site.storage_used for site in grid.scenario.sites)
    if abs(stored - grid.storages.written + grid.storages.deleted) > 1e-6 * max(1.0, grid.storages.written):
        problems.append(f"{stored} B stored, {grid.storages.written} written, {grid.storages.deleted} deleted")
    if any(free < -1.0 for free in grid.storages.free()):
        problems.append("a storage holds more than fits")
    return problems


def _shares(grid: Grid) -> list[str]:
    power = [queue.corepower for queue in grid.scenario.queues]
    busy = sum(job.cores * power[job.queue] for jobs in grid.running for job in jobs if job.state == RUNNING)
    total = float(grid.share_hs06.sum())
    return [] if abs(busy - total) <= 1e-6 * max(1.0, busy) else [f"{total} HS06 by share, {busy} by queue"]

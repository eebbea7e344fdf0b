"""Work that may be run in several ways: each chunk gets the first way that some queue satisfies.

Each way is tried with all filters against the same grid, before the cycle places anything. The chunk is then treated as
if only that way had been requested, so that its decision can be explained and repeated like any other. A chunk that no
queue takes in any way keeps the first. Source: Scalable Systems Software Job Object Specification 3.0.3, preferences
and fuzzy requirements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker.codec.work_codec import chunk_of
from broker.domain.work import WayToRun, Work, WorkTable
from broker.engine.job.cycle import JobCycle
from broker.work.assemble import CycleWork

#: With an efficiency of 0 the CPU time has no effect, and the walltime of a job is its base walltime.
_WALLTIME_ONLY: Mapping[str, float | str] = {"cputime": 1.0, "cputimeunit": "HS06sPerEvent", "cpuefficiency": 0.0}


def with_chosen_ways(work: CycleWork, cycle_over: Callable[[Work], JobCycle]) -> CycleWork:
    """The work with each chunk of a task that may be run in several ways set to the chosen one.

    Args:
        work: of the cycle, with the ways of its tasks; tasks without any are left as they are.
        cycle_over: makes a cycle over some work, each chunk of which meets the grid without placed load.
    """
    chunks, ways = work.work.chunks, work.ways
    rows = [row for row, task in enumerate(chunks.jeditaskid.tolist()) if ways.get(task)]
    if not rows:
        return work
    changed = chunks
    for row in rows:
        offered = ways[int(chunks.jeditaskid[row])]
        position = _first_satisfied(work.work, row, offered, cycle_over)
        changed = in_way(changed, row, offered[position])
    return dataclasses.replace(work, work=dataclasses.replace(work.work, chunks=changed), ways={})


def _first_satisfied(work: Work, row: int, ways: Sequence[WayToRun], cycle_over: Callable[[Work], JobCycle]) -> int:
    alone = chunk_of(work, row)
    for position, way in enumerate(ways):
        tried = dataclasses.replace(alone, chunks=in_way(alone.chunks, 0, way))
        result = next(cycle_over(tried).results())
        if len(result.feasible):
            return position
    return 0


def in_way(chunks: WorkTable, row: int, way: WayToRun) -> WorkTable:
    """The chunks with the request of the one at ``row`` set to this way; fields that the way leaves open stay."""
    values: dict[str, object] = {"accepted_cores": way.accepted_cores}
    if way.min_cores is not None:
        values["corecount"] = float(way.min_cores)
        if way.min_cores == 1 and way.max_cores != 1:
            values["corecount"] = 0.0  # slots of one core and of several
    if way.ramcount_mb is not None:
        values |= {"task_ramcount": float(way.ramcount_mb), "ramunit": "MB"}
    if way.disk_mb is not None:
        values |= {"workdiskcount": float(way.disk_mb), "workdiskunit": "MB"}
    if way.wall_s is not None:
        values |= {**_WALLTIME_ONLY, "basewalltime": float(way.wall_s)}
    columns: dict[str, Any] = {}
    for name, value in values.items():
        column = getattr(chunks, name).copy()
        column[row] = value
        columns[name] = column
    return dataclasses.replace(chunks, **columns)

"""Why a pilot gets the jobs that it gets: what fits its node, what misses by one condition, and which limits hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import psycopg
from psycopg.rows import tuple_row
from pydantic import BaseModel

from broker.domain.arrays import Bools, Ints
from broker.pilots.model.match_order import LAST_TIER
from broker.pilots.model.matcher import Pilot, index_of
from broker.pilots.statements.held_jobs import HeldHere, held_here
from broker.pilots.statements.running_limits import LimitState, limits_at
from broker.pilots.statements.task_queue_views import View, read_view
from broker.store.connection.tables import Names

_READ_JOBS = "SELECT task_queue, sum(jobs)::bigint FROM broker.task_queue_levels GROUP BY 1"


class FittingTier(BaseModel):
    """Task queues of one tier that fit: pilots take from the lowest tier that has jobs and room.

    Attributes:
        tier: tier of the types; null if they have none.
        types: types of the jobs.
        task_queues: number of task queues that fit.
        jobs: number of jobs that wait there.
        held: number of these whose limit has no room.
    """

    tier: int | None
    types: list[str]
    task_queues: int
    jobs: int
    held: int


class TaskQueuesThatMiss(BaseModel):
    """Task queues that fail exactly one condition.

    Attributes:
        field: the field that fails; for a node its part, such as ``node cpu.ram-mb.request``.
        task_queues: number of task queues that would fit without it.
        jobs: number of jobs that wait there.
    """

    field: str
    task_queues: int
    jobs: int


class WhyNode(BaseModel):
    """How task queues fit a pilot.

    Attributes:
        panda_queue: PanDA queue of its place.
        fits: task queues that fit, by tier, lowest first.
        near: task queues that miss by one condition, most jobs first.
        limits: limits, those without room first.
        held: jobs held from the node; null if there are none, or the pilot does not name its node.
    """

    panda_queue: str
    fits: list[FittingTier]
    near: list[TaskQueuesThatMiss]
    limits: list[LimitState]
    held: HeldHere | None = None


def why_node(connection: psycopg.Connection[Any], names: Names, pilot: Pilot, now: datetime) -> WhyNode:
    """Check all task queues for a pilot at ``now`` (aware); nothing is taken. The counts are of the last cycle."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        view = read_view(cursor, pilot, now, everywhere=True)
        counted: dict[int, int] = dict(cursor.execute(_READ_JOBS).fetchall())
        limits = limits_at(cursor, view.site)
        here = None if pilot.host is None else held_here(cursor, names, pilot.host, view.panda_queue, now)
    if pilot.node is not None:
        pilot = replace(pilot, node=replace(pilot.node, tags=pilot.node.tags | view.tags))
    jobs: Ints = np.array([counted.get(number, 0) for number in view.queues.id.tolist()], dtype=np.int64)
    full = {limit.job_type for limit in limits if not limit.free}
    holds = view.conditions(pilot)
    fits = np.logical_and.reduce(list(holds.values()))
    return WhyNode(
        panda_queue=view.panda_queue, fits=_tiers(view, fits, jobs, full), near=_near(view, pilot, holds, jobs),
        limits=limits, held=here,
    )  # fmt: skip


def _tiers(view: View, fits: Bools, jobs: Ints, full: set[str]) -> list[FittingTier]:
    tiers = []
    for tier in np.unique(view.queues.tier[fits]).tolist():
        chosen = np.flatnonzero(fits & (view.queues.tier == tier))
        held = [queue for queue in chosen.tolist() if view.pair_of(queue) and view.queues.job_type[queue] in full]
        types = sorted({str(kind or "") for kind in view.queues.job_type[chosen].tolist()})
        fitting = FittingTier(
            tier=None if tier == LAST_TIER else tier,
            types=types,
            task_queues=len(chosen),
            jobs=int(jobs[chosen].sum()),
            held=int(jobs[held].sum()),
        )
        tiers.append(fitting)
    return tiers


def _near(view: View, pilot: Pilot, holds: dict[str, Bools], jobs: Ints) -> list[TaskQueuesThatMiss]:
    misses = np.sum([~held for held in holds.values()], axis=0)
    by_field: dict[str, Bools] = {name: ~held & (misses == 1) for name, held in holds.items()}
    of_node = by_field.pop("node")
    by_field |= _parts_of_node(view, pilot, of_node)
    near_misses = [
        TaskQueuesThatMiss(field=name, task_queues=int(near.sum()), jobs=int(jobs[near].sum()))
        for name, near in by_field.items()
        if near.any()
    ]
    return sorted(near_misses, key=lambda one: (-one.jobs, one.field))


def _parts_of_node(view: View, pilot: Pilot, near: Bools) -> dict[str, Bools]:
    """The task queues that miss by their specs alone, by the one condition of a spec, or by several."""
    queue_specs = view.queues.specs.tolist()
    texts = tuple(dict.fromkeys(text for text, is_near in zip(queue_specs, near.tolist(), strict=True) if is_near))
    if not texts or pilot.node is None:
        return {"node is not told": near}
    index, known = index_of(texts)
    by_part, left = {}, near.copy()
    for name, groups in index.missing_one(pilot.node).items():
        by_text = dict(zip(known, groups.tolist(), strict=True))
        chosen = near & np.array([by_text.get(text, False) for text in queue_specs], dtype=np.bool_)
        by_part[f"node {name}"] = chosen
        left &= ~chosen
    return by_part | {"node in several parts": left}

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
    """Task queues of one tier that fit: pilots take from the least tier that has jobs and room.

    Attributes:
        tier: of the types; null: they have none.
        types: of the jobs.
        task_queues: that fit.
        jobs: that wait there.
        held: of these, those whose limit has no room.
    """

    tier: int | None
    types: list[str]
    task_queues: int
    jobs: int
    held: int


class TaskQueuesThatMiss(BaseModel):
    """Task queues that all conditions but one let pass.

    Attributes:
        field: the one that does not; of a node the part, such as ``node cpu.ram-mb.request``.
        task_queues: that would fit without it.
        jobs: that wait there.
    """

    field: str
    task_queues: int
    jobs: int


class WhyNode(BaseModel):
    """What there is for a pilot.

    Attributes:
        panda_queue: of its place.
        fits: by tier, the first first.
        near: with most jobs first.
        limits: those without room first.
        held: jobs that are held from the node; null: none, or the pilot does not name its node.
    """

    panda_queue: str
    fits: list[FittingTier]
    near: list[TaskQueuesThatMiss]
    limits: list[LimitState]
    held: HeldHere | None = None


def why_node(connection: psycopg.Connection[Any], names: Names, pilot: Pilot, now: datetime) -> WhyNode:
    """Look at all task queues for a pilot at ``now`` (aware); nothing is taken. The counts are of the last cycle."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        view = read_view(cursor, pilot, now, everywhere=True)
        counted: dict[int, int] = dict(cursor.execute(_READ_JOBS).fetchall())
        limits = limits_at(cursor, view.site)
        here = None if pilot.host is None else held_here(cursor, names, pilot.host, view.panda_queue, now)
    if pilot.node is not None:
        pilot = replace(pilot, node=replace(pilot.node, tags=pilot.node.tags | view.tags))
    jobs: Ints = np.array([counted.get(number, 0) for number in view.queues.id.tolist()], dtype=np.int64)
    full = {one.job_type for one in limits if not one.free}
    holds = view.conditions(pilot)
    fits = np.logical_and.reduce(list(holds.values()))
    return WhyNode(
        panda_queue=view.panda_queue, fits=_tiers(view, fits, jobs, full), near=_near(view, pilot, holds, jobs),
        limits=limits, held=here,
    )  # fmt: skip


def _tiers(view: View, fits: Bools, jobs: Ints, full: set[str]) -> list[FittingTier]:
    found = []
    for tier in np.unique(view.queues.tier[fits]).tolist():
        chosen = np.flatnonzero(fits & (view.queues.tier == tier))
        held = [queue for queue in chosen.tolist() if view.pair_of(queue) and view.queues.job_type[queue] in full]
        types = sorted({str(kind or "") for kind in view.queues.job_type[chosen].tolist()})
        told = FittingTier(
            tier=None if tier == LAST_TIER else tier,
            types=types,
            task_queues=len(chosen),
            jobs=int(jobs[chosen].sum()),
            held=int(jobs[held].sum()),
        )
        found.append(told)
    return found


def _near(view: View, pilot: Pilot, holds: dict[str, Bools], jobs: Ints) -> list[TaskQueuesThatMiss]:
    misses = np.sum([~held for held in holds.values()], axis=0)
    found: dict[str, Bools] = {name: ~held & (misses == 1) for name, held in holds.items()}
    of_node = found.pop("node")
    found |= _parts_of_node(view, pilot, of_node)
    told = [
        TaskQueuesThatMiss(field=name, task_queues=int(near.sum()), jobs=int(jobs[near].sum()))
        for name, near in found.items()
        if near.any()
    ]
    return sorted(told, key=lambda one: (-one.jobs, one.field))


def _parts_of_node(view: View, pilot: Pilot, near: Bools) -> dict[str, Bools]:
    """The task queues that miss by their specs alone, by the one condition of a spec, or by several."""
    asked = view.queues.specs.tolist()
    texts = tuple(dict.fromkeys(text for text, is_near in zip(asked, near.tolist(), strict=True) if is_near))
    if not texts or pilot.node is None:
        return {"node is not told": near}
    index, known = index_of(texts)
    found, left = {}, near.copy()
    for name, groups in index.missing_one(pilot.node).items():
        by_text = dict(zip(known, groups.tolist(), strict=True))
        chosen = near & np.array([by_text.get(text, False) for text in asked], dtype=np.bool_)
        found[f"node {name}"] = chosen
        left &= ~chosen
    return found | {"node in several parts": left}

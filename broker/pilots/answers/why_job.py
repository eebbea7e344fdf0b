"""Why a job waits: the nodes of the last day that fit it or miss by one condition, tags without a node, and limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
from psycopg.rows import tuple_row
from pydantic import BaseModel

from broker.history.answers.tasks import known_value
from broker.matching.specs.judge import Miss
from broker.matching.specs.spec import JobSpecs, NotCanonical
from broker.pilots.model.job_misses import NodeGroup, NodesThatMiss, compare, wanted_tags
from broker.pilots.model.matcher import specs_of
from broker.pilots.statements.held_jobs import HeldFrom, read_held_from
from broker.pilots.statements.presented_nodes import SeenNode, known_tags, read_seen
from broker.pilots.statements.running_limits import JOB_TYPE, LimitState, limits_at
from broker.store.connection.database import Database
from broker.store.query_context import NothingFound, QueryContext
from broker.store.reads.grid_names import queue_names

LOOKED_BACK = timedelta(hours=24)
MOST_FITS = 100

_READ_JOB = f"""
SELECT job.jobstatus, job.computingsite, {JOB_TYPE} AS job_type, asked.specs, asked.pool_id,
    coalesce(asked.sites, '[]') AS sites, coalesce(asked.banned_sites, '[]') AS banned_sites,
    coalesce((SELECT site FROM broker.queue_sites WHERE panda_queue = job.computingsite), job.computingsite) AS site,
    (SELECT array_agg(link.queue) FROM broker.submit_pools AS pool JOIN broker.submit_pool_links AS link
        ON link.pool = pool.number WHERE pool.pool_id = asked.pool_id) AS places
FROM {{panda}}.jobsactive4 AS job LEFT JOIN broker.task_requirements AS asked ON asked.jeditaskid = job.jeditaskid
WHERE job.pandaid = :pandaid"""  # noqa: S608 - constants


class FittingNodes(BaseModel):
    """Nodes where the job may run.

    Attributes:
        site: site of the nodes.
        panda_queue: PanDA queue of their place; null if unknown.
        of: source: requests of pilots, or reports of whole hosts.
        kinds_of_nodes: number of kinds of node that fit.
        seen: number of requests or hosts.
        last_seen_at: time of the last one.
    """

    site: str
    panda_queue: str | None
    of: Literal["pilots", "hosts"]
    kinds_of_nodes: int
    seen: int
    last_seen_at: datetime


class WhyJob(BaseModel):
    """How a job fits the nodes of the last 24 hours.

    Attributes:
        pandaid: PanDA ID of the job; null if it is not submitted.
        status: status of the job.
        panda_queue: queue where it waits; null for any.
        asks: canonical text of its requests of a node; null if there are none.
        seen: number of requests and hosts examined.
        fits: nodes that fit, most requests first, at most one hundred.
        near: nodes that miss by one condition, most requests first.
        far: number of requests and hosts that miss by several conditions.
        never_presented: tags that it requires and no node has had.
        held_from: nodes whose pilots do not get it for a while.
        limits: limits for its type at its site; empty for a job that is not submitted.
        sentences: the answer in sentences.
    """

    pandaid: int | None
    status: str | None
    panda_queue: str | None
    asks: str | None
    seen: int
    fits: list[FittingNodes]
    near: list[NodesThatMiss]
    far: int
    never_presented: list[str]
    held_from: list[HeldFrom]
    limits: list[LimitState]
    sentences: list[str]


@dataclass(frozen=True)
class _Asks:
    """What a job asks for, and where it waits; ``places``: places of its pool; None: it has none."""

    specs: JobSpecs | None
    pandaid: int | None = None
    status: str | None = None
    panda_queue: str | None = None
    site: str = ""
    job_type: str = ""
    sites: tuple[str, ...] = ()
    banned_sites: tuple[str, ...] = ()
    pool: str | None = None
    places: frozenset[int] | None = None
    is_readable: bool = True


def why_job(query: QueryContext, pandaid: int) -> WhyJob:
    """Explain why a job has no pilot, if it has none.

    Raises:
        NothingFound: it is not among the jobs that wait for pilots or have one.
    """
    statement = sa.text(query.names.sql(_READ_JOB))
    row = query.connection.execute(statement, {"pandaid": pandaid}).one_or_none()
    if row is None:
        raise NothingFound("activated job", pandaid, "jobsactive4", remedy=f"ask broker job {pandaid} where it is")
    specs, is_readable = None, True
    try:
        specs = None if row.specs is None else specs_of(row.specs)
    except NotCanonical:
        is_readable = False  # a later release wrote it
    places = None if row.pool_id is None else frozenset(row.places or ())
    job = _Asks(
        specs, pandaid, row.jobstatus, row.computingsite, row.site or "", row.job_type, tuple(row.sites),
        tuple(row.banned_sites), row.pool_id, places, is_readable,
    )  # fmt: skip
    return _explanation(query, job)


def why_specs(query: QueryContext, specs: JobSpecs, panda_queue: str | None = None) -> WhyJob:
    """Explain what there would be for a job that asks this of a node, at one PanDA queue or anywhere.

    Raises:
        UnknownValue: there is no such queue; it says which are near.
    """
    if panda_queue is not None:
        known_value("queue", panda_queue, queue_names(query.connection, query.names))
    return _explanation(query, _Asks(specs, panda_queue=panda_queue))


def _explanation(query: QueryContext, job: _Asks) -> WhyJob:
    raw = Database.raw(query.connection)
    sightings = [
        NodeGroup(seen_node, seen_node.site, seen_node.node, seen_node.seen, seen_node.last_seen_at)
        for seen_node in (read_seen(raw, query.names, query.now - LOOKED_BACK) if job.is_readable else ())
    ]
    compared = compare(job.specs, sightings, lambda one: _of_place(job, one.place))
    wanted = wanted_tags(job.specs)
    known = known_tags(raw, wanted) if wanted else frozenset()
    never = [tag for tag in wanted if tag not in known]
    with raw.cursor(row_factory=tuple_row) as cursor:
        limits = [one for one in limits_at(cursor, job.site) if one.job_type == job.job_type] if job.pandaid else []
    held = [] if job.pandaid is None else read_held_from(query, job.pandaid)
    near = list(compared.near)
    seen, fits = sum(one.count for one in sightings), _by_place(compared.fits)
    return WhyJob(
        **{name: getattr(job, name) for name in ("pandaid", "status", "panda_queue")},
        asks=None if job.specs is None else job.specs.canonical, seen=seen, fits=fits[:MOST_FITS], near=near,
        far=compared.far, never_presented=never, limits=limits,
        held_from=held,
        sentences=[*map(_held, held), *_sentences(job, seen, fits, near, never, limits)],
    )  # fmt: skip


def _held(hold: HeldFrom) -> str:
    until = hold.held_until.isoformat(timespec="seconds")
    return f"input of the job failed at node {hold.node}: its pilots are given the job again from {until}"


def _of_place(job: _Asks, seen: SeenNode) -> list[Miss]:
    """What the place of a node lacks for a job; the conditions are those of the matcher."""
    missed = []
    if job.panda_queue is not None and seen.panda_queue != job.panda_queue:
        missed.append(Miss("queue", "differs", job.panda_queue, seen.panda_queue))
    if job.sites and seen.site not in job.sites:
        missed.append(Miss("site of the job", "differs", list(job.sites), seen.site))
    if seen.site in job.banned_sites:
        missed.append(Miss("banned site of the job", "banned", list(job.banned_sites), seen.site))
    if job.places is not None and seen.place not in job.places:
        missed.append(Miss("submit_pool", "differs", job.pool, seen.panda_queue))
    return missed


def _by_place(fits: Sequence[NodeGroup[SeenNode]]) -> list[FittingNodes]:
    by_place: dict[tuple[Any, ...], list[NodeGroup[SeenNode]]] = {}
    for one in fits:
        by_place.setdefault((one.site, one.place.panda_queue, one.place.kind), []).append(one)
    fitting = [
        FittingNodes(
            site=site, panda_queue=queue, of=kind, kinds_of_nodes=len(nodes), seen=sum(one.count for one in nodes),
            last_seen_at=max(one.last_seen_at for one in nodes),
        )
        for (site, queue, kind), nodes in by_place.items()
    ]  # fmt: skip
    return sorted(fitting, key=lambda one: (-one.seen, one.site, one.panda_queue or ""))


def _sentences(
    job: _Asks,
    seen: int,
    fits: Sequence[FittingNodes],
    near: Sequence[NodesThatMiss],
    never: Sequence[str],
    limits: Sequence[LimitState],
) -> list[str]:
    lines = []
    if job.status not in (None, "activated"):
        lines.append(f"the job is {job.status}: it does not wait for a pilot")
    lines += [f"nobody ever presented tag {tag}" for tag in never]
    lines += [
        f"{one.job_type} at {one.site}: {one.running:,} of {one.most:,} run, and no token is free"
        for one in limits
        if not one.free
    ]
    if not job.is_readable:
        lines.append("what it asks of a node was written by a later release, and cannot be read: it fits no node here")
    elif not seen:
        lines.append("no node was seen in the last 24 hours: no pilot asked, and no host was reported")
    elif not fits:
        lines.append(f"none of {seen:,} sightings of nodes in the last 24 hours fits")
    else:
        lines.append(f"{sum(one.seen for one in fits):,} of {seen:,} sightings of nodes in the last 24 hours fit")
    return lines + [one.sentence for one in near]

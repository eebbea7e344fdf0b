"""Lists of queues and nuclei, with state, load and space, decisions about each, and where jobs went in the last hour.

Queues also come by their places on the map, by tier and by cloud. Nuclei come with what was drawn there, and what
rejected them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal

import numpy as np

from broker.brokerages.registry import brokerage as brokerage_of
from broker.domain.decisions import StoredDecision
from broker.domain.grid import COUNTED_STATUSES
from broker.domain.rejection_counts import QueueCount
from broker.grid.answers.grid import (
    DayCount,
    day_counts,
    figure,
    job_numbers,
    last_snapshot,
    link_lines,
    totals_about,
    tuning_in_force,
)
from broker.grid.answers.models import (
    JobNumbers,
    Nuclei,
    NucleusAnswer,
    NucleusLine,
    QueueFilters,
    QueueLine,
    Queues,
    TaskAtNucleus,
)
from broker.grid.answers.queue import rejected_there
from broker.grid.answers.queue_records import queue_records
from broker.grid.statements.site_places import site_places
from broker.history.answers.stored_states import ChunkState, last_states, looked_at, rejected_at
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.software import ALL_QUEUES
from broker.store.query_context import NothingFound, QueryContext, ResponseModel, known_name
from broker.store.summaries.reason_counts import queue_totals


class Places(ResponseModel):
    """Tier and cloud of each queue, by name; empty if CRIC has none.

    Attributes:
        tier: tier by queue name.
        cloud: cloud by queue name.
        degrees: latitude and longitude of queues that have both, or whose site has.
    """

    tier: dict[str, str]
    cloud: dict[str, str]
    degrees: dict[str, tuple[float, float]]


def places(query: QueryContext) -> Places:
    """Tier, cloud and place of the queues on record: the place that the queue gives, else that of its site."""
    tier, cloud, degrees = {}, {}, {}
    of_sites = site_places(query.connection)
    for row in queue_records(query).rows:
        document, name = row.document, row.panda_queue
        tier[name], cloud[name] = str(document.get("tier") or ""), str(document.get("cloud") or "")
        north, east = _degrees(document.get("latitude"), 90.0), _degrees(document.get("longitude"), 180.0)
        if north is not None and east is not None:
            degrees[name] = north, east
        elif (site := str(document.get("atlas_site") or "")) in of_sites:
            degrees[name] = of_sites[site]
    return Places(tier=tier, cloud=cloud, degrees=degrees)


def _degrees(value: object, most: float) -> float | None:
    """Degrees from a document, also from a text; None for any other value."""
    try:
        degrees = float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        return None
    return degrees if -most <= degrees <= most else None


LATELY = timedelta(hours=1)
_NOW = timedelta(seconds=1)


class PlacedJobs(ResponseModel):
    """Jobs placed at each queue since ``since``, by name; queues without jobs are omitted."""

    now: datetime
    since: datetime
    jobs: dict[str, int]


def placed_lately(query: QueryContext) -> PlacedJobs:
    """The jobs that each queue got in the last hour from all job brokerages."""
    since = query.now - LATELY
    totals = queue_totals(query.connection, since, query.now + _NOW)
    counts = day_counts(one for name, some in totals.items() if brokerage_of(name).candidate == "queue" for one in some)
    return PlacedJobs(
        now=query.now, since=since, jobs={name: one.placed for name, one in sorted(counts.items()) if one.placed}
    )


def queues(query: QueryContext, filters: QueueFilters | None = None, *, with_decisions: bool = True) -> Queues:
    """The queues that pass all filters, by name; queues newer than the last snapshot as they are on record.

    Args:
        query: context of the query.
        filters: which queues.
        with_decisions: whether to count the decisions about them in the last day; if not, these figures are 0.
    """
    snapshot, wanted = last_snapshot(query), filters or QueueFilters()
    totals = totals_about(query, "queue") if with_decisions else {}
    counts = [one for some in totals.values() for one in some]
    listing = queues_of(snapshot, counts, wanted, query.now)
    known = set() if snapshot is None else set(map(str, snapshot.unified.name))
    new = [line for line in _new_queues(query, known) if _holds(line, wanted)]
    lines = sorted((*listing.queues, *new), key=lambda line: line.queue)
    return listing.model_copy(update={"queues": tuple(lines)}) if new else listing


def _new_queues(query: QueryContext, known: Set[str]) -> Iterator[QueueLine]:
    """Other queues of ``schedconfig_json`` as their rows describe them; an unusable row has no status."""
    none = JobNumbers(**dict.fromkeys(COUNTED_STATUSES, 0))
    for row in queue_records(query).rows:
        document = row.document
        name = str(document.get("nickname") or row.panda_queue)
        if name == ALL_QUEUES or name in known:
            continue
        yield QueueLine(
            queue=name,
            site=str(document.get("atlas_site") or ""),
            status=str(document.get("status") or ""),
            type=str(document.get("type") or ""),
            pseudo_queues=0,
            jobs=none,
            pilots=0.0,
            considered=0,
            chosen=0,
            placed=0,
            main_code=None,
        )


def queues_of(snapshot: Snapshot | None, counts: Iterable[QueueCount], filters: QueueFilters, now: datetime) -> Queues:
    """The list from a snapshot and the counts of each queue. Pure."""
    if snapshot is None:
        return Queues(now=now, snapshot=None, taken_at=None, queues=())
    lines = _lines(snapshot, day_counts(counts))
    shown = [line for line in lines if _holds(line, filters)]
    return Queues(now=now, snapshot=snapshot.id, taken_at=snapshot.taken_at, queues=tuple(shown))


def _lines(snapshot: Snapshot, counts: Mapping[str, DayCount]) -> list[QueueLine]:
    unified, own = snapshot.unified, snapshot.queues.unified
    lines, pseudo_queues = [], np.bincount(own[own >= 0], minlength=len(unified)).tolist()
    for row in sorted(range(len(unified)), key=lambda row: str(unified.name[row])):
        name = str(unified.name[row])
        counted = counts.get(name, DayCount())
        lines.append(
            QueueLine(
                queue=name,
                site=str(unified.atlas_site[row] or ""),
                status=str(unified.status[row] or ""),
                type=str(unified.type[row] or ""),
                pseudo_queues=pseudo_queues[row],
                jobs=job_numbers(snapshot, row),
                pilots=float(unified.n_pilots[row]),
                considered=counted.considered,
                chosen=counted.chosen,
                placed=counted.placed,
                main_code=counted.main_code,
            )
        )
    return lines


def _holds(line: QueueLine, filters: QueueFilters) -> bool:
    if filters.status is not None and line.status != filters.status:
        return False
    if filters.site is not None and line.site.casefold() != filters.site.casefold():
        return False
    return not filters.idle or not line.placed


NUCLEUS = "nucleus"
MOST_TASKS = 50
MOST_LINKS = 50


def nuclei(query: QueryContext) -> Nuclei:
    """All nuclei and satellites, by name."""
    return nuclei_of(last_snapshot(query), _nucleus_counts(query), query.now)


def nuclei_of(snapshot: Snapshot | None, counts: Mapping[str, DayCount], now: datetime) -> Nuclei:
    """The list from a snapshot and the counts of each nucleus. Pure."""
    if snapshot is None:
        return Nuclei(now=now, snapshot=None, taken_at=None, nuclei=())
    lines = tuple(_nucleus_line(snapshot, row, counts) for row in range(len(snapshot.nuclei)))
    return Nuclei(now=now, snapshot=snapshot.id, taken_at=snapshot.taken_at, nuclei=lines)


def nucleus_answer(query: QueryContext, name: str) -> NucleusAnswer:
    """One nucleus: what was drawn there with which probability, and what rejected it.

    Raises:
        NothingFound: there is no such nucleus; the error names the nearest.
    """
    snapshot = last_snapshot(query)
    if snapshot is None:
        raise NothingFound(
            "nucleus", name, "broker.snapshots", remedy="run a brokerage first: broker run production_task"
        )
    nucleus = known_name("nucleus", name, [str(one) for one in snapshot.nuclei.name], "site")
    row = int(np.flatnonzero(snapshot.nuclei.name == nucleus)[0])
    counts, states = _nucleus_counts(query, nucleus), _states(query)
    waiting = rejected_at([one for one in states if one.outcome != "brokered"], nucleus)
    links = sorted(
        link_lines(snapshot, tuning_in_force(query), None, nucleus), key=lambda one: -(one.queued_files or 0.0)
    )
    of_site = snapshot.queues.unified_name[snapshot.queues.nucleus == row]
    return NucleusAnswer(
        now=query.now,
        snapshot=snapshot.id,
        taken_at=snapshot.taken_at,
        line=_nucleus_line(snapshot, row, counts),
        rejected=rejected_there(counts.get(nucleus, DayCount()), waiting),
        tasks=tuple(_tasks(nucleus, states)),
        links=tuple(links[:MOST_LINKS]),
        queues=tuple(sorted({str(one) for one in of_site})),
    )


def _states(query: QueryContext) -> list[ChunkState]:
    last = last_states(query.connection, query.now)
    return [one for name, some in last.items() if brokerage_of(name).candidate == NUCLEUS for one in some.newest]


def _nucleus_counts(query: QueryContext, nucleus: str | None = None) -> dict[str, DayCount]:
    totals: list[QueueCount] = [one for some in totals_about(query, NUCLEUS, nucleus).values() for one in some]
    return day_counts(totals)


def _nucleus_line(snapshot: Snapshot, row: int, counts: Mapping[str, DayCount]) -> NucleusLine:
    nuclei, name = snapshot.nuclei, str(snapshot.nuclei.name[row])
    counted = counts.get(name, DayCount())
    storage = int(nuclei.output_storage[row])
    role: Literal["nucleus", "satellite"] = "nucleus" if nuclei.is_nucleus[row] else "satellite"
    return NucleusLine(
        nucleus=name,
        role=role,
        state=str(nuclei.state[row] or ""),
        output_endpoint=None if storage < 0 else str(snapshot.storages.name[storage]),
        free_gb=None if storage < 0 else figure(snapshot.storages.space_free_gb[storage]),
        total_gb=None if storage < 0 else figure(snapshot.storages.space_total_gb[storage]),
        collected=counted.placed,
        candidate=counted.chosen,
        considered=counted.considered,
    )


def _tasks(nucleus: str, states: Sequence[ChunkState]) -> Iterator[TaskAtNucleus]:
    """The last tasks for which the nucleus was a candidate, with the probability of being drawn."""
    brokered = [state for state in states if state.outcome == "brokered"]
    some = sorted(looked_at(brokered), key=lambda state: -state.decision)
    # the candidates of a decision are created on demand
    for state in islice((state for state in some if nucleus in state.chosen), MOST_TASKS):
        stored = state.reader.decision(state.decision)
        if stored is not None:
            yield task_at_nucleus(stored, nucleus)


def task_at_nucleus(stored: StoredDecision, nucleus: str) -> TaskAtNucleus:
    """A decision for which a nucleus was a candidate. Pure."""
    candidates = stored.record.decision.candidates
    weight = next(candidate.weight for candidate in candidates if candidate.name == nucleus)
    total = sum(candidate.weight for candidate in candidates)
    return TaskAtNucleus(
        jeditaskid=stored.record.decision.jeditaskid,
        decided_at=stored.origin.decided_at,
        drawn=nucleus in stored.record.assigned,
        weight=weight,
        probability=weight / total if total > 0 else 0.0,
    )

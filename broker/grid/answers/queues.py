"""The list of queues, each with its state, load and what decisions made of it.

The places of queues on the map, by tier and cloud, and where jobs went in the last hour.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import datetime, timedelta

import numpy as np

from broker.brokerages.registry import brokerage as brokerage_of
from broker.domain.grid import COUNTED_STATUSES
from broker.domain.rejection_counts import QueueCount
from broker.grid.answers.grid import DayCount, day_counts, job_numbers, last_snapshot, totals_about
from broker.grid.answers.models import JobNumbers, QueueFilters, QueueLine, Queues
from broker.grid.statements.site_places import site_places
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.sources.software import ALL_QUEUES
from broker.store.classes.class_inputs import read_queue_rows
from broker.store.query_context import Answer, Asking
from broker.store.summaries.reason_counts import queue_totals


class Places(Answer):
    """Tier and cloud of each queue, by name; empty where CRIC says none.

    Attributes:
        tier: by name.
        cloud: by name.
        degrees: north and east, of the queues of which both are known, or of whose site.
    """

    tier: dict[str, str]
    cloud: dict[str, str]
    degrees: dict[str, tuple[float, float]]


def places(asking: Asking) -> Places:
    """Tier, cloud and place of the queues on record: a place as the queue says, else that of its site."""
    tier, cloud, degrees = {}, {}, {}
    of_sites = site_places(asking.connection)
    for row in read_queue_rows(asking.connection, asking.catalogue):
        document = json_document(row["data"])
        name = str(row["panda_queue"])
        tier[name], cloud[name] = str(document.get("tier") or ""), str(document.get("cloud") or "")
        north, east = _degrees(document.get("latitude"), 90.0), _degrees(document.get("longitude"), 180.0)
        if north is not None and east is not None:
            degrees[name] = north, east
        elif (site := str(document.get("atlas_site") or "")) in of_sites:
            degrees[name] = of_sites[site]
    return Places(tier=tier, cloud=cloud, degrees=degrees)


def _degrees(value: object, most: float) -> float | None:
    """Degrees of a document, also as a text; None for what cannot be any."""
    try:
        found = float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        return None
    return found if -most <= found <= most else None


def json_document(text: str | None) -> dict[str, object]:
    """The object of a column with a document; empty where it holds none."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


LATELY = timedelta(hours=1)
_NOW = timedelta(seconds=1)


class Placed(Answer):
    """The jobs that each queue got since ``since``, by name; queues that got none are not there."""

    now: datetime
    since: datetime
    jobs: dict[str, int]


def placed_lately(asking: Asking) -> Placed:
    """The jobs that each queue got in the last hour, of all brokerages of jobs."""
    since = asking.now - LATELY
    totals = queue_totals(asking.connection, since, asking.now + _NOW)
    found = day_counts(one for name, some in totals.items() if brokerage_of(name).candidate == "queue" for one in some)
    return Placed(
        now=asking.now, since=since, jobs={name: one.placed for name, one in sorted(found.items()) if one.placed}
    )


def queues(asking: Asking, filters: QueueFilters | None = None, *, with_decisions: bool = True) -> Queues:
    """The queues for which all filters hold, by name; those that came after the last snapshot as they are on record.

    Args:
        asking: whom.
        filters: which queues.
        with_decisions: whether it is counted what was decided about them in the last day; else these figures are 0.
    """
    snapshot, wanted = last_snapshot(asking), filters or QueueFilters()
    totals = totals_about(asking, "queue") if with_decisions else {}
    counts = [one for some in totals.values() for one in some]
    found = queues_of(snapshot, counts, wanted, asking.now)
    known = set() if snapshot is None else set(map(str, snapshot.unified.name))
    new = [line for line in _on_record(asking, known) if _holds(line, wanted)]
    lines = sorted((*found.queues, *new), key=lambda line: line.queue)
    return found.model_copy(update={"queues": tuple(lines)}) if new else found


def _on_record(asking: Asking, known: Set[str]) -> Iterator[QueueLine]:
    """Other queues of ``schedconfig_json`` with what their rows say; a row that cannot be used has no status."""
    none = JobNumbers(**dict.fromkeys(COUNTED_STATUSES, 0))
    for row in read_queue_rows(asking.connection, asking.catalogue):
        document = json_document(row["data"])
        name = str(document.get("nickname") or row["panda_queue"])
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
    """The list, of a snapshot and what was counted of each queue. Pure."""
    if snapshot is None:
        return Queues(now=now, snapshot=None, taken_at=None, queues=())
    lines = _lines(snapshot, day_counts(counts))
    shown = [line for line in lines if _holds(line, filters)]
    return Queues(now=now, snapshot=snapshot.id, taken_at=snapshot.taken_at, queues=tuple(shown))


def _lines(snapshot: Snapshot, counts: Mapping[str, DayCount]) -> list[QueueLine]:
    unified, own = snapshot.unified, snapshot.queues.unified
    lines, pseudo_queues = [], np.bincount(own[own >= 0], minlength=len(unified)).tolist()
    for at in sorted(range(len(unified)), key=lambda at: str(unified.name[at])):
        name = str(unified.name[at])
        counted = counts.get(name, DayCount())
        lines.append(
            QueueLine(
                queue=name,
                site=str(unified.atlas_site[at] or ""),
                status=str(unified.status[at] or ""),
                type=str(unified.type[at] or ""),
                pseudo_queues=pseudo_queues[at],
                jobs=job_numbers(snapshot, at),
                pilots=float(unified.n_pilots[at]),
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

"""What answers about the grid share: stored snapshots, the last one of a brokerage, jobs by status."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import sqlalchemy as sa

from broker.brokerages.offered import offered
from broker.domain.grid import COUNTED_STATUSES
from broker.gdpconfig import Tuning
from broker.grid.answers.models import JobNumbers, LinkLine
from broker.snapshot.snapshot import Snapshot
from broker.store.query_context import Asking
from broker.store.snapshots.snapshot_loading import stored_snapshot
from broker.store.snapshots.stored_snapshots import SnapshotLostError, last_of_agents
from broker.tuning.statements.gdpconfig_rows import TuningStore

KEPT = 4
_kept: OrderedDict[str, Snapshot] = OrderedDict()
_lock = threading.Lock()


def snapshot_of(connection: sa.Connection, identifier: str) -> Snapshot:
    """A stored snapshot.

    Raises:
        SnapshotLostError: it is not there any more.
    """
    with _lock:
        if identifier in _kept:
            _kept.move_to_end(identifier)
            return _kept[identifier]
    found = stored_snapshot(connection, identifier)
    with _lock:
        _kept[identifier] = found
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found


LINK_CAP = "NQUEUED_SAT_CAP"
_NEWEST = sa.text("SELECT id FROM broker.snapshots WHERE taken_at <= :now ORDER BY taken_at DESC LIMIT 1")


def last_snapshot(asking: Asking, brokerage: str | None = None) -> Snapshot | None:
    """The last stored snapshot of a brokerage, or of any; None where none is kept."""
    agents = offered() if brokerage is None else (brokerage,)
    found = [one.id for one in last_of_agents(asking.connection, agents)]
    if brokerage is None:
        found += asking.connection.scalars(_NEWEST, {"now": asking.now})
    for identifier in found:
        try:
            return snapshot_of(asking.connection, identifier)
        except SnapshotLostError:
            continue
    return None


def tuning_in_force(asking: Asking) -> Tuning:
    """The gdpconfig values of the newest published version, for the VO of the installation."""
    return TuningStore(asking.names).read_current(asking.connection).tuning(asking.names.vo)


def job_numbers(snapshot: Snapshot, unified: int) -> JobNumbers:
    """Jobs of a unified queue by status."""
    stats = dict(zip(COUNTED_STATUSES, snapshot.jobs.total[unified].tolist(), strict=True))
    return JobNumbers(**{name: int(number) for name, number in stats.items()})


def link_lines(snapshot: Snapshot, tuning: Tuning, source: str | None, nucleus: str | None) -> Iterator[LinkLine]:
    """The links of which anything is known, from the site of a storage to a nucleus."""
    links, nuclei = snapshot.links, snapshot.nuclei
    cap = tuning.number(LINK_CAP)
    known = ~(np.isnan(links.queued) & np.isnan(links.closeness) & np.isnan(links.mbps_1d))
    for row, column in zip(*(at.tolist() for at in np.nonzero(known)), strict=True):
        site, name = str(links.sites[row]), str(nuclei.name[column])
        if source not in (None, site) or nucleus not in (None, name):
            continue
        queued = figure(links.queued[row, column])
        yield LinkLine(
            source=site,
            nucleus=name,
            queued_files=queued,
            cap_files=cap,
            full=None if queued is None else queued > cap,
            closeness=figure(links.closeness[row, column]),
            mbps_1h=figure(links.mbps_1h[row, column]),
            mbps_1d=figure(links.mbps_1d[row, column]),
            mbps_1w=figure(links.mbps_1w[row, column]),
        )


def figure(value: float) -> float | None:
    """A number; None for NaN."""
    return None if math.isnan(value) else float(value)

"""How fast the jobs of tasks finish."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.store.connection.tables import TableCatalogue

_COLUMNS = ("jeditaskid", "jobstatus", "endtime")
_FINISHED = """
    SELECT count(*), min(endtime) FROM {archived} AS j
    WHERE jeditaskid = ANY(:tasks) AND jobstatus = 'finished' AND endtime >= :since AND endtime <= :until"""


def finished_between(
    connection: sa.Connection, catalogue: TableCatalogue, tasks: Sequence[int], since: datetime, until: datetime
) -> tuple[int, datetime | None]:
    """How many jobs of some tasks finished in a span of time (aware), and when the first of them did."""
    query = sa.text(_FINISHED.format(archived=catalogue.source("jobsarchived4", _COLUMNS)))
    span = {"since": naive(since), "until": naive(until)}
    jobs, first = connection.execute(query, {"tasks": list(tasks), **span}).one()
    return int(jobs), None if first is None else first.replace(tzinfo=UTC)

"""Statements that count the staging of input from tape in the requests of PanDA's Data Carousel.

Source: PanDA database, data_carousel_requests and data_carousel_relations; Data Carousel interface, statuses.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.simulation.model.calibration.site_history import TapeRecord, counted
from broker.simulation.model.scenario_parts import Tape
from broker.store.connection.tables import Names

#: Minimum number of requests to count.
FEWEST_REQUESTS = 30
NOT_THERE = "the tables of the Data Carousel cannot be read"
_READABLE = """
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname IN ('data_carousel_requests', 'data_carousel_relations')
    AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"""
_REQUESTS = """
SELECT count(*) AS requests, coalesce(sum(total_files), 0)::bigint AS files,
    coalesce(sum(total_files - least(coalesce(staged_files, 0), total_files)), 0)::bigint AS failed,
    count(*) FILTER (WHERE {done}) AS n,
    percentile_cont(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (
        ORDER BY (extract(epoch FROM end_time - start_time) / ceil(total_files / CAST(:at_once AS double precision)))
            ::double precision) FILTER (WHERE {done}) AS took
FROM {panda}.data_carousel_requests
WHERE end_time >= :since AND end_time < :until AND total_files > 0 AND status IN ('done', 'cancelled')"""
_DONE = "status = 'done' AND end_time > start_time"
_PART = """
SELECT count(DISTINCT t.jeditaskid) AS tasks,
    count(DISTINCT t.jeditaskid) FILTER (WHERE r.task_id IS NOT NULL) AS staged
FROM {panda}.jedi_tasks AS t LEFT JOIN {panda}.data_carousel_relations AS r ON r.task_id = t.jeditaskid
WHERE t.creationdate >= :since AND t.creationdate < :until
    AND EXISTS (SELECT FROM {panda}.jedi_datasets AS d WHERE d.jeditaskid = t.jeditaskid AND d.type = 'input')"""


def site_tape(
    connection: sa.Connection, names: Names, since: datetime, until: datetime
) -> tuple[TapeRecord | None, str]:
    """The staging from tape in a span (aware), or None with the reason why it is not known."""
    if connection.scalar(sa.text(_READABLE), {"schema": names.panda}) != 2:
        return None, NOT_THERE
    span = {"since": naive(since), "until": naive(until)}
    at_once = {"at_once": Tape().requests_at_once}
    row = connection.execute(sa.text(names.sql(_REQUESTS.replace("{done}", _DONE))), span | at_once).one()
    if row.n < FEWEST_REQUESTS:
        return None, f"{row.n} requests of the Data Carousel were done, {FEWEST_REQUESTS} are needed"
    part = connection.execute(sa.text(names.sql(_PART)), span).one()
    part_of = part.staged / part.tasks if part.tasks else 0.0
    return TapeRecord(row.requests, int(row.files), int(row.failed), counted(row.n, row.took), part_of), ""

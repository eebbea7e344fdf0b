"""Pilot requests by queue: recorded as they come, and counted into ``sitedata``.

Source: PanDA server, counting of pilot requests (add_sub); PanDA data model, sitedata.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.store.connection.tables import Names

Method = Literal["getjob", "updatejob", "nojob"]
STEP_S = 300
#: Windows that are counted, in hours.
WINDOWS_H = (1, 3)
FORGOTTEN_AFTER = timedelta(hours=48)

_ADD_REQUESTS = f"""
INSERT INTO broker.pilot_requests (panda_queue, method, node, step, requests)
SELECT :queue, :method, :node, date_bin('{STEP_S} s', CAST(:now AS timestamptz), '2000-01-01Z'), :requests
ON CONFLICT (step, panda_queue, method, node) DO UPDATE
    SET requests = pilot_requests.requests + excluded.requests"""  # noqa: S608 - constants
_COUNT_REQUESTS = """
WITH counted AS (
    SELECT panda_queue, hours,
        count(DISTINCT node) FILTER (WHERE method = 'getjob') AS getjob,
        count(DISTINCT node) FILTER (WHERE method = 'updatejob') AS updatejob,
        count(DISTINCT node) FILTER (WHERE method = 'nojob') AS nojob,
        coalesce(sum(requests) FILTER (WHERE method = 'getjob'), 0) AS getjobabs,
        coalesce(sum(requests) FILTER (WHERE method = 'updatejob'), 0) AS updatejobabs,
        coalesce(sum(requests) FILTER (WHERE method = 'nojob'), 0) AS nojobabs
    FROM broker.pilot_requests CROSS JOIN unnest(CAST(:windows AS integer[])) AS hours
    WHERE step > CAST(:now AS timestamptz) - make_interval(hours => hours) AND step <= :now
      AND panda_queue IN (SELECT coalesce(data ->> 'nickname', panda_queue) FROM {panda}.schedconfig_json)
    GROUP BY panda_queue, hours
)
INSERT INTO {meta}.sitedata AS known (site, flag, hours, getjob, updatejob, nojob, getjobabs, updatejobabs, nojobabs,
    lastmod, running)
SELECT left(panda_queue, 60), CASE WHEN panda_queue LIKE 'ANALY\\_%' THEN 'analysis' ELSE 'production' END, hours,
    getjob, updatejob, nojob, getjobabs, updatejobabs, nojobabs, :naive_now, 0
FROM counted
ON CONFLICT (site, flag, hours) DO UPDATE
    SET getjob = excluded.getjob, updatejob = excluded.updatejob, nojob = excluded.nojob,
        getjobabs = excluded.getjobabs, updatejobabs = excluded.updatejobabs, nojobabs = excluded.nojobabs,
        lastmod = excluded.lastmod"""
_ZERO_OLD_ROWS = """
UPDATE {meta}.sitedata SET getjob = 0, updatejob = 0, nojob = 0, getjobabs = 0, updatejobabs = 0, nojobabs = 0
WHERE flag IN ('production', 'analysis') AND hours = ANY(:windows)
  AND lastmod < CAST(:naive_now AS timestamp) - make_interval(hours => hours)
  AND (getjob <> 0 OR updatejob <> 0 OR nojob <> 0)"""
_FORGET_ROWS = """
DELETE FROM {meta}.sitedata
WHERE flag IN ('production', 'analysis') AND hours = ANY(:windows) AND lastmod < :forgotten"""
_FORGET_REQUESTS = "DELETE FROM broker.pilot_requests WHERE step < :forgotten"


def note_request(
    connection: sa.Connection, queue: str, node: str | None, method: Method, now: datetime, requests: int = 1
) -> None:
    """Count requests of a node at ``now`` (aware); all requests without a node count as one node."""
    values = {"queue": queue, "method": method, "node": node or "", "now": now, "requests": requests}
    connection.execute(sa.text(_ADD_REQUESTS), values)


def count_requests(connection: sa.Connection, names: Names, now: datetime) -> dict[str, int]:
    """Update ``sitedata`` at ``now`` (aware); return how many rows were counted, zeroed and removed."""
    values = {
        "windows": list(WINDOWS_H),
        "now": now,
        "naive_now": naive(now),
        "forgotten": naive(now - FORGOTTEN_AFTER),
    }

    def run(statement: str) -> int:
        return connection.execute(sa.text(names.sql(statement)), values).rowcount

    counts = {"rows": run(_COUNT_REQUESTS), "zeroed": run(_ZERO_OLD_ROWS), "removed": run(_FORGET_ROWS)}
    before = now - timedelta(hours=max(WINDOWS_H), seconds=STEP_S)
    connection.execute(sa.text(_FORGET_REQUESTS), {"forgotten": before})
    return counts

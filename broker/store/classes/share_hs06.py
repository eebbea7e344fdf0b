"""What the usage of shares is made from: the tree of shares, and HS06 of jobs that run and wait.

Source: PanDA analysis brokerage, global share usage; PanDA data model, global_shares and job statistics.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.classification import ShareCount
from broker.snapshot.source import JobStatistics
from broker.store.connection.tables import TableCatalogue

# HS06 of PanDA's statistics are computed already; jobs counted live have the cores, and a queue its power.
_COUNT_JOBS_OF_SHARES = """
SELECT gshare, computingsite, jobstatus IN ('running', 'sent') AS is_running,
       sum(greatest(coalesce(corecount, 1), 1))::float8
FROM {active} AS a
WHERE jobstatus IN ('running', 'sent', 'activated') AND computingsite IS NOT NULL
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
_READ_STATISTICS_OF_SHARES = """
SELECT gshare, CAST(NULL AS text), jobstatus IN ('running', 'sent') AS is_running, coalesce(sum(hs), 0)::float8
FROM {statistics} AS s WHERE jobstatus IN ('running', 'sent', 'activated')
GROUP BY 1, 3 ORDER BY 1, 3
"""


def read_share_rows(connection: sa.Connection, catalogue: TableCatalogue) -> list[dict[str, Any]]:
    """Rows of ``global_shares`` by name."""
    source = catalogue.source("global_shares", ("name", "value", "parent"))
    query = sa.text(f"SELECT name, value, parent FROM {source} AS g ORDER BY name")  # noqa: S608 - quoted names
    return [dict(row._mapping) for row in connection.execute(query)]


def read_share_counts(
    connection: sa.Connection, catalogue: TableCatalogue, statistics: JobStatistics
) -> tuple[list[ShareCount], datetime | None]:
    """The counts, and when PanDA's statistics were made; None for jobs that are counted now."""
    if statistics == "live":
        columns = ("gshare", "computingsite", "jobstatus", "corecount")
        query = sa.text(_COUNT_JOBS_OF_SHARES.format(active=catalogue.source("jobsactive4", columns)))
        return [ShareCount(*row) for row in connection.execute(query)], None
    source = catalogue.source("jobs_share_stats", ("ts", "gshare", "jobstatus", "hs"))
    counts = [
        ShareCount(*row) for row in connection.execute(sa.text(_READ_STATISTICS_OF_SHARES.format(statistics=source)))
    ]
    made_at = connection.scalar(sa.text(f"SELECT max(ts) FROM {source} AS s"))  # noqa: S608 - quoted names
    return counts, made_at.replace(tzinfo=UTC) if isinstance(made_at, datetime) else None

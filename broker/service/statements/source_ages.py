"""The age of each source's newest row, and PanDA's active daemons, in a PanDA database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from broker.store.connection.tables import TableCatalogue

#: Tables whose rows have a measurement time, with the column.
STAMPS = (
    ("jobs_share_stats", "ts"),
    ("jobsdefined_share_stats", "ts"),
    ("mv_jobsactive4_stats", "cur_date"),
    ("schedconfig_json", "last_update"),
    ("ddm_endpoint", "space_timestamp"),
    ("network_matrix_kv", "ts"),
    ("sitedata", "lastmod"),
    ("harvester_worker_stats", "lastupdate"),
    ("sw_tags", "last_update"),
    ("metrics", "timestamp"),
    ("task_evaluation", "timestamp"),
)
_READ_DAEMONS = """
SELECT component, max(lockedtime) AS last FROM {locks} AS l
WHERE component LIKE 'pandaD.%' OR component LIKE '%atchdog%' OR component LIKE '%.%' GROUP BY component ORDER BY 1
"""


@dataclass(frozen=True)
class Newest:
    """The newest row of a table (aware); None for a table without rows."""

    table: str
    at: datetime | None


def newest_rows(connection: sa.Connection, catalogue: TableCatalogue) -> list[Newest]:
    """Return the newest row of each source in the database."""
    rows = []
    for table, column in STAMPS:
        if column not in catalogue.columns_present(table):
            continue
        # names from the constants above
        query = f"SELECT max({column}) FROM {catalogue.source(table, (column,))} AS s"  # noqa: S608
        at = connection.scalar(sa.text(query))
        rows.append(Newest(table, at.replace(tzinfo=UTC) if isinstance(at, datetime) and at.tzinfo is None else at))
    return rows


def daemon_locks(connection: sa.Connection, catalogue: TableCatalogue) -> dict[str, datetime]:
    """Return when PanDA's daemons last took their lock, by component (aware)."""
    locks = catalogue.source("jedi_process_lock", ("component", "lockedtime"))
    rows = connection.execute(sa.text(_READ_DAEMONS.format(locks=locks)))
    return {str(component): last.replace(tzinfo=UTC) for component, last in rows if last is not None}

"""The two summaries of worker nodes: what they say, and how far what they are made from goes back.

Pilots report the node on which they start, its GPUs, and the queue through which they came. The summaries tell for each
queue what it has; brokerage reads nothing else of worker nodes. What has not been seen for a month counts no more.
Source: PanDA data model, worker nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.store.connection.tables import Names, TableCatalogue, quoted


@dataclass(frozen=True)
class WorkerNodeSummary:
    """One summary.

    Attributes:
        table: its name, be it a table or a materialised view.
        columns: those that are filled, in the order of ``computed``.
        computed: SELECT of its rows at ``:now`` (naive UTC), no two of them equal.
        reports: the tables it is made from.
        stamped: the one of them whose ``last_seen`` decides what counts.
    """

    table: str
    columns: tuple[str, ...]
    computed: str
    reports: tuple[str, ...]
    stamped: str


# A node of several queues counts in each. The age of its row in worker_node_queue is not looked at.
GPU_SUMMARY = WorkerNodeSummary(
    table="mv_worker_node_gpu_summary",
    columns=(
        "site",
        "panda_queue",
        "vendor",
        "model",
        "vram",
        "architecture",
        "framework",
        "framework_version",
        "driver_version",
        "gpus_per_host",
        "host_count",
    ),
    computed="""
        SELECT g.site, q.panda_queue, g.vendor, g.model, g.vram, g.architecture, g.framework, g.framework_version,
            g.driver_version, g.count, count(*)
        FROM {panda}.worker_node_gpus AS g
        JOIN {panda}.worker_node_queue AS q ON q.site = g.site AND q.host_name = g.host_name
        WHERE g.last_seen > CAST(:now AS timestamp) - interval '1 month'
        GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10""",
    reports=("worker_node_gpus", "worker_node_queue"),
    stamped="worker_node_gpus",
)

# The share is of all logical CPUs of the queue at all its sites, also of those whose level nobody reported. Counts that
# cannot be are dropped: one of them could push a share out of the column and end every refresh.
CPU_SUMMARY = WorkerNodeSummary(
    table="mv_worker_node_summary",
    columns=("site", "panda_queue", "cpu_architecture_level", "total_logical_cpus", "pct_within_pq"),
    computed="""
        SELECT site, panda_queue, cpu_architecture_level, cpus,
            round(cpus::numeric * 100 / nullif(sum(cpus) OVER (PARTITION BY panda_queue), 0), 2)
        FROM (
            SELECT n.site, q.panda_queue, n.cpu_architecture_level,
                sum(n.n_logical_cpus) FILTER (WHERE n.n_logical_cpus > 0) AS cpus
            FROM {panda}.worker_node AS n
            JOIN {panda}.worker_node_queue AS q ON q.site = n.site AND q.host_name = n.host_name
            WHERE q.last_seen > CAST(:now AS timestamp) - interval '1 month'
            GROUP BY 1, 2, 3
        ) AS levels""",
    reports=("worker_node", "worker_node_queue"),
    stamped="worker_node_queue",
)

SUMMARIES = (GPU_SUMMARY, CPU_SUMMARY)


@dataclass(frozen=True)
class Reports:
    """What a summary would be made from.

    Attributes:
        absent: tables that the database does not have, or that hold no row.
        newest: when the newest of the reports came in (aware); None when nobody says.
    """

    absent: tuple[str, ...]
    newest: datetime | None

    def age_s(self, now: datetime) -> float | None:
        """Seconds from the newest report to ``now``."""
        return None if self.newest is None else (now - self.newest).total_seconds()


def read_reports(connection: sa.Connection, catalogue: TableCatalogue, summary: WorkerNodeSummary) -> Reports:
    """What there is to make a summary from."""
    absent = tuple(table for table in summary.reports if not _has_rows(connection, catalogue, table))
    if summary.stamped in absent or "last_seen" not in catalogue.columns_present(summary.stamped):
        return Reports(absent, None)
    newest = connection.exec_driver_sql(
        f"SELECT max(last_seen) FROM {catalogue.names.table(summary.stamped)}"  # noqa: S608 - quoted names
    ).scalar()
    return Reports(absent, newest.replace(tzinfo=UTC) if isinstance(newest, datetime) else None)


def _has_rows(connection: sa.Connection, catalogue: TableCatalogue, table: str) -> bool:
    if not catalogue.columns_present(table):
        return False
    found = connection.exec_driver_sql(f"SELECT EXISTS (SELECT FROM {catalogue.names.table(table)})")  # noqa: S608
    return bool(found.scalar())


@dataclass(frozen=True)
class Differences:
    """What a refresh of a summary changed (or would change): rows it has now, rows added, rows removed."""

    rows: int
    added: int
    removed: int


# One statement, so that both halves see the same reports. Rows are compared whole, where NULL is equal to NULL; of rows
# that are there twice one stays.
_WANTED_AND_HELD = """
    WITH wanted AS MATERIALIZED (
        SELECT CAST(ROW({fields}) AS {table}) AS whole FROM ({computed}) AS computed ({columns})
    ), held AS MATERIALIZED (
        SELECT place, whole, row_number() OVER (PARTITION BY whole ORDER BY place) AS copy
        FROM (SELECT t.ctid AS place, t AS whole FROM {table} AS t) AS rows
    ), gone AS MATERIALIZED (
        SELECT place FROM held WHERE copy > 1 OR NOT EXISTS (SELECT FROM wanted WHERE wanted.whole = held.whole)
    ), lacking AS MATERIALIZED (
        SELECT whole FROM wanted WHERE NOT EXISTS (SELECT FROM held WHERE held.whole = wanted.whole)
    )"""
_COUNT_CHANGES = "SELECT (SELECT count(*) FROM wanted), (SELECT count(*) FROM lacking), (SELECT count(*) FROM gone)"
_WRITTEN = """, removed AS (
        DELETE FROM {table} AS t USING gone WHERE t.ctid = gone.place RETURNING 1
    ), added AS (
        INSERT INTO {table} SELECT (whole).* FROM lacking RETURNING 1
    )
    SELECT (SELECT count(*) FROM wanted), (SELECT count(*) FROM added), (SELECT count(*) FROM removed)"""


def write_differences(
    connection: sa.Connection, names: Names, summary: WorkerNodeSummary, columns: Sequence[str], now: datetime
) -> Differences:
    """Make a summary that is a plain table say what the reports say at ``now`` (aware); readers never see half of it.

    Args:
        connection: in a transaction for writing.
        names: the schema names.
        summary: which one.
        columns: all columns of the table, in its order.
        now: what is older than a month before it is dropped.
    """
    return _compared(connection, names, summary, columns, now, _WANTED_AND_HELD + _WRITTEN)


def count_differences(
    connection: sa.Connection, names: Names, summary: WorkerNodeSummary, columns: Sequence[str], now: datetime
) -> Differences:
    """What :func:`write_differences` would change; nothing is written."""
    return _compared(connection, names, summary, columns, now, _WANTED_AND_HELD + _COUNT_CHANGES)


def _compared(
    connection: sa.Connection,
    names: Names,
    summary: WorkerNodeSummary,
    columns: Sequence[str],
    now: datetime,
    statement: str,
) -> Differences:
    parts: Mapping[str, str] = {
        "fields": ", ".join(quoted(name) if name in summary.columns else "NULL" for name in columns),
        "columns": ", ".join(quoted(name) for name in summary.columns),
        "table": names.table(summary.table),
        "computed": names.sql(summary.computed),
    }
    row: Any = connection.execute(sa.text(statement.format(**parts)), {"now": naive(now)}).one()
    return Differences(*row)


_SAVE_REFRESH = """
    INSERT INTO broker.summary_refreshes (summary, refreshed_for) VALUES (:summary, :now)
    ON CONFLICT (summary) DO UPDATE SET refreshed_for = excluded.refreshed_for"""


def note_refresh(connection: sa.Connection, summary: WorkerNodeSummary, now: datetime) -> None:
    """Note that a summary has been made for the instant ``now`` (aware)."""
    connection.execute(sa.text(_SAVE_REFRESH), {"summary": summary.table, "now": now})


def forget_refresh(connection: sa.Connection, summary: WorkerNodeSummary) -> None:
    """Note that somebody else makes a summary: its age is not known."""
    connection.execute(
        sa.text("DELETE FROM broker.summary_refreshes WHERE summary = :summary"), {"summary": summary.table}
    )


def refreshed_for(connection: sa.Connection, table: str) -> datetime | None:
    """The instant (aware) for which the summary ``table`` was last made; None when that is not known."""
    found: datetime | None = connection.scalar(
        sa.text("SELECT refreshed_for FROM broker.summary_refreshes WHERE summary = :summary"), {"summary": table}
    )
    return found


RelationKind = Literal["table", "materialised view", "other", "missing"]

_KINDS: dict[str, RelationKind] = {"r": "table", "p": "table", "m": "materialised view"}

# A refresh beside readers needs a plain unique index. The right MAINTAIN came with PostgreSQL 17; before, it takes the
# owner.
_READ_ABOUT_VIEW = """
SELECT c.relkind::text AS kind, c.relispopulated AS populated,
    pg_has_role(c.relowner, 'USAGE') AS owned,
    EXISTS (
        SELECT FROM pg_catalog.pg_index AS i
        WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
          AND i.indpred IS NULL AND i.indexprs IS NULL
    ) AS indexed
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relname = :table
"""
_ASK_WHETHER_MAINTAINED = "SELECT has_table_privilege(CAST(:qualified AS text), 'MAINTAIN')"
_WITH_MAINTAIN = 170_000


@dataclass(frozen=True)
class Relation:
    """What the database has under the name of a summary.

    Attributes:
        kind: what it is.
        populated: False for a materialised view that was never filled and cannot be read.
        refreshable: the role of this connection may refresh it.
        indexed: it can be refreshed while others read it.
    """

    kind: RelationKind
    populated: bool = True
    refreshable: bool = False
    indexed: bool = False


def relation_of(connection: sa.Connection, names: Names, table: str) -> Relation:
    """What the database has under the name ``table`` of one of PanDA's tables."""
    found = connection.execute(
        sa.text(_READ_ABOUT_VIEW), {"schema": names.schema_of(table), "table": table}
    ).one_or_none()
    if found is None:
        return Relation("missing")
    kind = _KINDS.get(found.kind, "other")
    refreshable = kind == "materialised view" and (found.owned or _maintained(connection, names.table(table)))
    return Relation(kind, bool(found.populated), bool(refreshable), bool(found.indexed))


def _maintained(connection: sa.Connection, qualified: str) -> bool:
    if int(connection.scalar(sa.text("SHOW server_version_num")) or 0) < _WITH_MAINTAIN:
        return False
    return bool(connection.scalar(sa.text(_ASK_WHETHER_MAINTAINED), {"qualified": qualified}))


def refresh_view(connection: sa.Connection, names: Names, table: str, *, first: bool) -> int:
    """Refresh a materialised view and count its rows.

    Args:
        connection: in a transaction for writing.
        names: the schema names.
        table: the view.
        first: it was never filled; this cannot be done concurrently, and nobody can read it yet.
    """
    how = "" if first else "CONCURRENTLY "
    qualified = names.table(table)
    connection.exec_driver_sql(f"REFRESH MATERIALIZED VIEW {how}{qualified}")
    return int(connection.exec_driver_sql(f"SELECT count(*) FROM {qualified}").scalar() or 0)  # noqa: S608 - quoted

"""The two summaries of worker nodes: their contents, and the age of the reports behind them.

Pilots report the node on which they start, its GPUs, and the queue through which they came. The summaries list what
each queue has; brokerage reads no other data about worker nodes. Nodes not seen for a month no longer count.
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
    """The definition of a summary.

    Attributes:
        table: its name, whether it is a table or a materialised view.
        columns: the columns that are filled, in the order of ``computed``.
        computed: SELECT of its distinct rows at ``:now`` (naive UTC).
        reports: the tables that it is computed from.
        stamped: the one of them whose ``last_seen`` decides which rows count.
    """

    table: str
    columns: tuple[str, ...]
    computed: str
    reports: tuple[str, ...]
    stamped: str


# A node of several queues counts in each. The age of its row in worker_node_queue is not checked.
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

# The share is of all logical CPUs of the queue at all its sites, including those without a reported level. Impossible
# counts are dropped: one of them could make a share exceed its column and fail every refresh.
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
    """The reports that a summary would be computed from.

    Attributes:
        absent: tables that the database lacks, or that are empty.
        newest: when the newest report arrived (aware); None if unknown.
    """

    absent: tuple[str, ...]
    newest: datetime | None

    def age_s(self, now: datetime) -> float | None:
        """Seconds from the newest report to ``now``."""
        return None if self.newest is None else (now - self.newest).total_seconds()


def read_reports(connection: sa.Connection, catalogue: TableCatalogue, summary: WorkerNodeSummary) -> Reports:
    """Check which reports exist to compute a summary from."""
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
    result = connection.exec_driver_sql(f"SELECT EXISTS (SELECT FROM {catalogue.names.table(table)})")  # noqa: S608
    return bool(result.scalar())


@dataclass(frozen=True)
class Differences:
    """What a refresh of a summary changed (or would change): rows in total, rows added, rows removed."""

    rows: int
    added: int
    removed: int


# One statement, so that both halves see the same reports. Rows are compared whole, so that NULL equals NULL; of
# duplicate rows one stays.
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
    """Update a summary that is a plain table to the reports at ``now`` (aware); readers never see a partial update.

    Args:
        connection: in a transaction for writing.
        names: the schema names.
        summary: the summary to update.
        columns: all columns of the table, in its order.
        now: the instant; reports older than a month before it are dropped.
    """
    return _differences(connection, names, summary, columns, now, _WANTED_AND_HELD + _WRITTEN)


def count_differences(
    connection: sa.Connection, names: Names, summary: WorkerNodeSummary, columns: Sequence[str], now: datetime
) -> Differences:
    """Count what :func:`write_differences` would change; nothing is written."""
    return _differences(connection, names, summary, columns, now, _WANTED_AND_HELD + _COUNT_CHANGES)


def _differences(
    connection: sa.Connection,
    names: Names,
    summary: WorkerNodeSummary,
    columns: Sequence[str],
    now: datetime,
    statement: str,
) -> Differences:
    names_by_placeholder: Mapping[str, str] = {
        "fields": ", ".join(quoted(name) if name in summary.columns else "NULL" for name in columns),
        "columns": ", ".join(quoted(name) for name in summary.columns),
        "table": names.table(summary.table),
        "computed": names.sql(summary.computed),
    }
    row: Any = connection.execute(sa.text(statement.format(**names_by_placeholder)), {"now": naive(now)}).one()
    return Differences(*row)


_SAVE_REFRESH = """
    INSERT INTO broker.summary_refreshes (summary, refreshed_for) VALUES (:summary, :now)
    ON CONFLICT (summary) DO UPDATE SET refreshed_for = excluded.refreshed_for"""


def note_refresh(connection: sa.Connection, summary: WorkerNodeSummary, now: datetime) -> None:
    """Record that a summary was computed for the instant ``now`` (aware)."""
    connection.execute(sa.text(_SAVE_REFRESH), {"summary": summary.table, "now": now})


def forget_refresh(connection: sa.Connection, summary: WorkerNodeSummary) -> None:
    """Record that a summary is maintained elsewhere, so that its age is unknown."""
    connection.execute(
        sa.text("DELETE FROM broker.summary_refreshes WHERE summary = :summary"), {"summary": summary.table}
    )


def refreshed_for(connection: sa.Connection, table: str) -> datetime | None:
    """The instant (aware) for which the summary ``table`` was last computed; None if unknown."""
    moment: datetime | None = connection.scalar(
        sa.text("SELECT refreshed_for FROM broker.summary_refreshes WHERE summary = :summary"), {"summary": table}
    )
    return moment


RelationKind = Literal["table", "materialised view", "other", "missing"]

_KINDS: dict[str, RelationKind] = {"r": "table", "p": "table", "m": "materialised view"}

# A refresh concurrent with readers needs a plain unique index. The privilege MAINTAIN exists since PostgreSQL 17;
# before that, only the owner can refresh.
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
    """The relation that the database has under the name of a summary.

    Attributes:
        kind: kind of the relation.
        populated: False for a materialised view that was never filled and cannot be read.
        refreshable: whether the role of this connection may refresh it.
        indexed: whether it can be refreshed while others read it.
    """

    kind: RelationKind
    populated: bool = True
    refreshable: bool = False
    indexed: bool = False


def relation_of(connection: sa.Connection, names: Names, table: str) -> Relation:
    """The relation that the database has under the name ``table`` of one of PanDA's tables."""
    row = connection.execute(
        sa.text(_READ_ABOUT_VIEW), {"schema": names.schema_of(table), "table": table}
    ).one_or_none()
    if row is None:
        return Relation("missing")
    kind = _KINDS.get(row.kind, "other")
    refreshable = kind == "materialised view" and (row.owned or _may_maintain(connection, names.table(table)))
    return Relation(kind, bool(row.populated), bool(refreshable), bool(row.indexed))


def _may_maintain(connection: sa.Connection, qualified: str) -> bool:
    if int(connection.scalar(sa.text("SHOW server_version_num")) or 0) < _WITH_MAINTAIN:
        return False
    return bool(connection.scalar(sa.text(_ASK_WHETHER_MAINTAINED), {"qualified": qualified}))


def refresh_view(connection: sa.Connection, names: Names, table: str, *, first: bool) -> int:
    """Refresh a materialised view and count its rows.

    Args:
        connection: in a transaction for writing.
        names: the schema names.
        table: the view.
        first: whether it was never filled; then it cannot be refreshed concurrently, but has no readers yet either.
    """
    option = "" if first else "CONCURRENTLY "
    qualified = names.table(table)
    connection.exec_driver_sql(f"REFRESH MATERIALIZED VIEW {option}{qualified}")
    return int(connection.exec_driver_sql(f"SELECT count(*) FROM {qualified}").scalar() or 0)  # noqa: S608 - quoted

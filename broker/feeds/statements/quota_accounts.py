"""Whose quotas brokerage asks for: users and groups with analysis tasks that are not done."""

from __future__ import annotations

import sqlalchemy as sa

from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_reads import ANALYSIS_LABELS
from broker.store.reads.replica_requests import STATUSES


def accounts(connection: sa.Connection, catalogue: TableCatalogue) -> list[str]:
    """The accounts, by name."""
    tasks = catalogue.source("jedi_tasks", ("username", "workinggroup", "prodsourcelabel", "status"))
    query = sa.text(f"""
        SELECT DISTINCT account FROM (
            SELECT unnest(ARRAY[username, workinggroup]) AS account FROM {tasks} AS t
            WHERE prodsourcelabel = ANY(:labels) AND status = ANY(:statuses)) AS named
        WHERE account IS NOT NULL AND account <> '' ORDER BY account""")  # noqa: S608 - names of tables and columns
    values = {"labels": list(ANALYSIS_LABELS), "statuses": list(STATUSES)}
    return [str(row[0]) for row in connection.execute(query, values)]

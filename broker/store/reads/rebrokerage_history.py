"""The history of rebrokerage: from which queues jobs of a dataset were taken, and when."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from broker.store.connection.array_transfer import array_of

_READ_REBROKERED_FROM = sa.text("""
    SELECT jeditaskid, datasetid, queue, extract(epoch FROM rebrokered_at)::float8
    FROM broker.rebrokered_from WHERE jeditaskid = ANY(CAST(:tasks AS bigint[]))""")


def read_rebrokered_from(connection: sa.Connection, tasks: Sequence[int]) -> dict[tuple[int, int], dict[str, float]]:
    """For each (task, dataset) of the tasks the queues and the times (s since 1970) of the last rebrokerage."""
    found: dict[tuple[int, int], dict[str, float]] = {}
    for task, dataset, queue, at_s in connection.execute(_READ_REBROKERED_FROM, {"tasks": array_of(tasks)}):
        found.setdefault((task, dataset), {})[queue] = at_s
    return found

"""The memory of the brokerage: from which queues jobs of a dataset were taken back, and when."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

_READ = sa.text("""
    SELECT jeditaskid, datasetid, queue, extract(epoch FROM rebrokered_at)::float8
    FROM broker.rebrokered_from WHERE jeditaskid = ANY(:tasks)""")


def read_taken_back(connection: sa.Connection, tasks: Sequence[int]) -> dict[tuple[int, int], dict[str, float]]:
    """For each (task, dataset) of the tasks the queues and the times (s since 1970) of the last taking."""
    found: dict[tuple[int, int], dict[str, float]] = {}
    for task, dataset, queue, at_s in connection.execute(_READ, {"tasks": list(tasks)}):
        found.setdefault((task, dataset), {})[queue] = at_s
    return found

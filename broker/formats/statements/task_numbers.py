"""Numbers of tasks: from 10,000,000 on, each assigned once, without a lock that submissions would wait for.

PanDA's clients take a smaller number for the number of a request.
"""

from __future__ import annotations

import sqlalchemy as sa

from broker.store.connection.tables import Names

FIRST_TASK = 10_000_000
# An arbitrary constant: only one transaction at a time moves the sequence on.
_LOCK = 4_706_178_262
_IS_TAKEN = "SELECT EXISTS (SELECT FROM {panda}.jedi_tasks WHERE jeditaskid = :id)"
_MOVE_ON = """
SELECT setval('broker.task_id_seq', greatest((SELECT max(jeditaskid) FROM {panda}.jedi_tasks),
    (SELECT last_value FROM broker.task_id_seq)))"""


def next_task_id(connection: sa.Connection, names: Names) -> int:
    """An unused number of a task. Tasks that were loaded with numbers of their own are skipped."""
    number = _next(connection)
    if connection.scalar(sa.text(names.sql(_IS_TAKEN)), {"id": number}):
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        number = _next(connection)
        if connection.scalar(sa.text(names.sql(_IS_TAKEN)), {"id": number}):
            connection.execute(sa.text(names.sql(_MOVE_ON)))
            number = _next(connection)
    return number


def _next(connection: sa.Connection) -> int:
    return int(connection.scalar(sa.text("SELECT nextval('broker.task_id_seq')")) or FIRST_TASK)

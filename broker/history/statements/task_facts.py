"""Facts of tasks as people ask for them, from PanDA's table of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from broker.store.connection.tables import TableCatalogue

COLUMNS = (
    "jeditaskid",
    "taskname",
    "status",
    "username",
    "workinggroup",
    "prodsourcelabel",
    "processingtype",
    "gshare",
    "currentpriority",
    "corecount",
    "ramcount",
    "ramunit",
    "walltime",
    "walltimeunit",
    "nucleus",
    "site",
    "creationdate",
    "errordialog",
)


@dataclass(frozen=True)
class TaskSelection:
    """Which tasks: those for which all that is given holds; names of users, nuclei and shares whatever their case."""

    tasks: Sequence[int] | None = None
    user: str | None = None
    statuses: Sequence[str] | None = None
    nucleus: str | None = None
    gshare: str | None = None
    open_only: bool = False


#: Tasks in these states are not brokered any more.
ENDED = ("done", "finished", "failed", "broken", "aborted", "exhausted", "obsolete")

_SELECTED = """
    WHERE (CAST(:tasks AS bigint[]) IS NULL OR jeditaskid = ANY(:tasks))
      AND (CAST(:user AS text) IS NULL OR lower(username) = lower(:user))
      AND (CAST(:statuses AS text[]) IS NULL OR status = ANY(:statuses))
      AND (CAST(:nucleus AS text) IS NULL OR lower(nucleus) = lower(:nucleus))
      AND (CAST(:gshare AS text) IS NULL OR lower(gshare) = lower(:gshare))
      AND (NOT :open_only OR status IS NULL OR status <> ALL(CAST(:ended AS text[])))
    ORDER BY jeditaskid"""


def read_task_facts(
    connection: sa.Connection, catalogue: TableCatalogue, selection: TaskSelection
) -> dict[int, dict[str, Any]]:
    """The facts of tasks by their number, with the names of the fields of an answer."""
    source = catalogue.source("jedi_tasks", COLUMNS)
    query = sa.text(f"SELECT {', '.join(COLUMNS)} FROM {source} AS t {_SELECTED}")  # noqa: S608 - quoted names
    return {row[0]: _facts(row) for row in connection.execute(query, _values(selection)).all()}


def read_task_numbers(connection: sa.Connection, catalogue: TableCatalogue, selection: TaskSelection) -> list[int]:
    """The numbers of tasks, in order: :func:`read_task_facts` without the facts."""
    source = catalogue.source("jedi_tasks", COLUMNS)
    query = sa.text(f"SELECT jeditaskid FROM {source} AS t {_SELECTED}")  # noqa: S608 - quoted names
    return [int(number) for number in connection.scalars(query, _values(selection)).all()]


def _values(selection: TaskSelection) -> Mapping[str, object]:
    return {
        "tasks": None if selection.tasks is None else list(selection.tasks),
        "user": selection.user,
        "statuses": None if selection.statuses is None else list(selection.statuses),
        "nucleus": selection.nucleus,
        "gshare": selection.gshare,
        "open_only": selection.open_only,
        "ended": list(ENDED),
    }


def read_user_names(connection: sa.Connection, catalogue: TableCatalogue) -> list[str]:
    """The names of all users who have tasks."""
    return read_task_values(connection, catalogue, "username")


def read_task_values(connection: sa.Connection, catalogue: TableCatalogue, column: str) -> list[str]:
    """What tasks have in one of ``COLUMNS``, each value once."""
    source = catalogue.source("jedi_tasks", (column,))
    query = f'SELECT DISTINCT "{column}" FROM {source} AS t WHERE "{column}" IS NOT NULL ORDER BY 1'  # noqa: S608 - as above
    return [str(value) for value in connection.scalars(sa.text(query))]


def _facts(row: Sequence[Any]) -> dict[str, Any]:
    facts = dict(zip(COLUMNS, row, strict=True))
    created = facts.pop("creationdate")
    return {**facts, "created_at": created.replace(tzinfo=UTC) if isinstance(created, datetime) else None}

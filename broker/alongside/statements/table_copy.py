"""A table that is copied, and the statements that read it.

They use only what all databases of PanDA understand alike: columns, tables, comparisons, AND, OR, IN, IS NULL,
binds, ``count(*)`` and GROUP BY. Rows are tuples without names, so the order of the columns is that of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from broker.alongside.model.panda_reader import PandaSchemas
from broker.domain.instants import naive
from broker.store.connection.tables import META_TABLES

#: Statuses of tasks that a brokerage reads.
LIVE_STATUSES = ("assigning", "ready", "running", "scouting", "topreprocess", "preprocessing", "pending")
LIVE = "t.status IN (" + ", ".join(f"'{status}'" for status in LIVE_STATUSES) + ")"
OF_LIVE_TASKS = ("jedi_tasks", f"t.jeditaskid = c.jeditaskid AND {LIVE}")
"""For :attr:`TableCopy.joined`: only rows of tasks that a brokerage reads."""
_TEN_MINUTES_S = 600
_BIND = re.compile(r":[a-z_]+[0-9]*")

#: Instants that conditions name, as ages, and whether they are rounded down to whole ten minutes.
_AGES: Mapping[str, tuple[timedelta, bool]] = {
    ":six_hours_ago": (timedelta(hours=6), False),
    ":three_hours_ago": (timedelta(hours=3), False),
    ":one_hour_ago": (timedelta(hours=1), False),
    ":one_day_ago": (timedelta(days=1), False),
    ":eight_days_ago": (timedelta(days=8), False),
    ":window_begin": (timedelta(hours=6), True),
    ":window_end": (timedelta(minutes=5), True),
    ":in_window": (timedelta(hours=3), True),
    ":just_now": (timedelta(), False),
}


@dataclass(frozen=True)
class Slice:
    """Some rows of a table.

    Attributes:
        where: condition on them; empty for all.
        columns: read of them; None for all of the copy. The others are NULL.
        instants: columns that are not read but set to an instant, by its name.
    """

    where: str = ""
    columns: tuple[str, ...] | None = None
    instants: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableCopy:
    """A table of the mirror and where its rows come from.

    Attributes:
        name: of the copy; that of the table in the mirror.
        table: PanDA's.
        columns: of the mirror's table, without ``counted``.
        slices: the rows, in one statement each.
        counted: equal rows are merged into one, with their number in the column ``counted``.
        joined: a second table, called ``t`` in the condition that follows it; only rows with a partner there.
        retention_column: the time column by which rows that PanDA no longer has are retained; None: they are deleted
            at once.
        retention: how long they are retained.
    """

    name: str
    table: str
    columns: tuple[str, ...]
    slices: tuple[Slice, ...] = (Slice(),)
    counted: bool = False
    joined: tuple[str, str] | None = None
    retention_column: str | None = None
    retention: timedelta = timedelta(days=8)


def instants(now: datetime) -> dict[str, datetime]:
    """The instants that statements name, as PanDA stores times: UTC without a zone."""
    moment = now.astimezone(UTC)
    instants_by_name = {}
    for name, (age, whole) in _AGES.items():
        instant = moment - age
        if whole:
            instant = datetime.fromtimestamp(instant.timestamp() // _TEN_MINUTES_S * _TEN_MINUTES_S, UTC)
        instants_by_name[name] = naive(instant)
    return instants_by_name


def qualified(schemas: PandaSchemas, table: str) -> str:
    """The table with its schema."""
    return f"{schemas.meta if table in META_TABLES else schemas.panda}.{table}"


def columns_read(copy: TableCopy, one: Slice, present: Collection[str]) -> tuple[str, ...]:
    """The columns that the statement of a slice selects: the wanted ones that the table has."""
    wanted = copy.columns if one.columns is None else one.columns
    return tuple(name for name in wanted if name in present and name not in one.instants)


def select(copy: TableCopy, one: Slice, schemas: PandaSchemas, present: Collection[str]) -> str:
    """The statement of a slice, with the columns of :func:`columns_read` in order, and the number of equal rows."""
    columns = [f"c.{name}" for name in columns_read(copy, one, present)]
    tables = [f"{qualified(schemas, copy.table)} c"]
    conditions = [f"({one.where})"] if one.where else []
    if copy.joined is not None:
        table, condition = copy.joined
        tables.append(f"{qualified(schemas, table)} t")
        conditions.append(condition)
    text = f"SELECT {', '.join([*columns, 'count(*)'] if copy.counted else columns)} FROM {', '.join(tables)}"  # noqa: S608 - names
    text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return text + (f" GROUP BY {', '.join(columns)}" if copy.counted else "")


def numbered(column: str, values: Sequence[int]) -> tuple[str, dict[str, int]]:
    """A condition that a column is one of ``values``, at most 1000 as Oracle takes, and its binds."""
    binds = {f":n{index}": value for index, value in enumerate(values)}
    return f"{column} IN ({', '.join(binds)})", binds


def binds_of(statement: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """The known binds that a statement names; Oracle refuses others."""
    return {name: known[name] for name in _BIND.findall(statement) if name in known}


LIVE_TASKS = Slice(LIVE.replace("t.", "c.") + " OR c.modificationtime > :three_hours_ago")
"""Tasks that a brokerage reads, and those that have just left it."""

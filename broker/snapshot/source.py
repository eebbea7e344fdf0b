"""The contract of a snapshot source: tables, limits, the value built from the rows, and whether it may be used.

The sources of this distribution are modules of ``broker.snapshot.sources``, ordered by ``broker.snapshot.source_list``.
A source of another distribution is a subclass of :class:`Source`, offered by the entry point group ``broker.sources``.
It is read in the cycles of brokerages with a rule that names it in ``sources``, is stored with the snapshot, and its
value is ``snapshot.offered[name]`` in the ``prepare`` of that rule; see ``docs/how-to/add-a-source.md``.

:func:`assess` tells the state of a source: present, fresh, and not suddenly smaller. An unusable source makes the rules
that need it answer *unknown*; it never looks like an empty one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from broker.domain.instants import aware
from broker.snapshot.raw import RawSource, SourceState, State

if TYPE_CHECKING:
    from broker.snapshot.snapshot import Snapshot


Built = TypeVar("Built")
JobStatistics = Literal["live", "panda"]


class SourceError(Exception):
    """A source is missing or breaks the contract; the message says what to do."""


@dataclass(frozen=True)
class TableRead:
    """One table of a source.

    Attributes:
        table: name in the schema of PanDA's tables; ``schema.table`` for another schema.
        columns: columns read.
        optional: columns that some PanDA schemas of recent years lack: NULL if missing. All others are required for the
            source to be usable.
        table_optional: whether a missing PanDA table counts as one without rows.
        as_text: columns that hold JSON, read as text.
        stamp: column with the time at which a row was written, if any.
        where: SQL condition, unless all rows are read.
        counted: whether equal rows are read once, with their number in an additional column ``counted``.
        stored_as: name of the rows in the source, if not ``table``.
    """

    table: str
    columns: tuple[str, ...]
    as_text: tuple[str, ...] = ()
    stamp: str | None = None
    where: str | None = None
    counted: bool = False
    stored_as: str = ""
    optional: tuple[str, ...] = ()
    table_optional: bool = False

    @property
    def name(self) -> str:
        """The name of its rows in the source."""
        return self.stored_as or self.table

    @property
    def columns_stored(self) -> tuple[str, ...]:
        """The columns of its rows in the source."""
        return (*self.columns, "counted") if self.counted else self.columns


@dataclass(frozen=True)
class StatementRead:
    """Rows of a source that a dedicated statement returns.

    Attributes:
        name: name of the rows in the source.
        columns_stored: their columns.
        statement: SQL; ``{key}`` stands for a table of ``tables``, ``:now`` for the instant of the snapshot and
            ``:since`` for the one ``window`` before it (naive UTC). It must sort the rows, so that equal content has an
            equal digest.
        tables: PanDA table and columns by key; all columns but the optional ones are required.
        window: distance of ``:since`` from the instant of the snapshot.
        newest: SQL of one value, the time of the newest row, if rows have a time.
        optional: columns that some PanDA schemas of recent years lack: NULL if missing.
        number_lists: columns with ``array_send`` of a bigint array, stored as ascending comma-separated numbers.
    """

    name: str
    columns_stored: tuple[str, ...]
    statement: str
    tables: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    window: timedelta | None = None
    newest: str | None = None
    number_lists: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


Read = TableRead | StatementRead


@dataclass(frozen=True)
class SourceLimit:
    """Limits of a source: age of its newest row, whether it may be empty, and how much it may shrink.

    ``max_age_s`` is None if its rows have no time stamps, so that there is no age and no limit. ``max_shrink`` is the
    largest fraction of the rows of any table that may disappear since the last good reading (1.0: all). ``main_table``
    is the table without which a source of several tables is empty.
    """

    max_age_s: float | None = None
    may_be_empty: bool = True
    max_shrink: float = 1.0
    main_table: str | None = None


class AnySource:
    """Declarations common to all sources.

    Attributes:
        name: as in ``config/sources.yaml``, in ``sources`` of rules, and in stored snapshots.
        reads: its tables.
        limit: its limits, unless ``config/sources.yaml`` sets others.
        aged_by: its name in the table of refreshes, if that gives its age instead of a column of its rows.
        may_fail: whether a failing read does not stop the cycle; the state of the source is then *failed*.
        for_analysis: whether only the analysis brokerage reads it.
    """

    name: ClassVar[str]
    reads: ClassVar[tuple[Read, ...]]
    limit: ClassVar[SourceLimit] = SourceLimit()
    aged_by: ClassVar[str | None] = None
    may_fail: ClassVar[bool] = False
    for_analysis: ClassVar[bool] = False

    def reads_with(self, statistics: JobStatistics) -> tuple[Read, ...]:
        """The tables to read with this way of counting jobs."""
        return self.reads


class Source(AnySource, ABC):
    """A source whose value is offered next to the tables of the snapshot, for the rules and steps that name it."""

    may_fail = True

    @abstractmethod
    def build(self, raw: RawSource, snapshot: Snapshot) -> Any:
        """Build the value for ``snapshot.offered[name]``, once per snapshot; pure, from rows either read or stored.

        Args:
            raw: the rows; ``raw.rows(table).records()`` gives them as dictionaries.
            snapshot: the grid without the sources of other distributions.
        """


def assess(
    source: RawSource, now: datetime, limit: SourceLimit, last_good: RawSource | None = None
) -> tuple[RawSource, SourceState]:
    """Return the reading to use and the state of the source.

    Args:
        source: the new reading.
        now: the instant of the snapshot (aware).
        limit: limits of this source.
        last_good: the last reading used; it is kept if the new one has shrunk by more than ``limit.max_shrink``.
    """
    missing = not limit.may_be_empty and _is_empty(source, limit.main_table)
    if missing and (last_good is None or _is_empty(last_good, limit.main_table)):
        return source, SourceState(source.name, "missing", source.row_count, None, limit.max_age_s, detail="no rows")
    used, state, detail = source, "ok", ""
    shrunk = "" if last_good is None else _shrunk(source, last_good, 1.0 - limit.max_shrink)
    if last_good is not None and (missing or shrunk):
        used, state = last_good, "shrunk"
        detail = f"{shrunk or 'no rows'}: refused, the last good reading is kept"
    age_s = _age_s(used, now)
    if limit.max_age_s is not None and age_s is not None and age_s > limit.max_age_s:
        return used, SourceState(source.name, "stale", used.row_count, age_s, limit.max_age_s, detail=detail)
    final: State = "shrunk" if state == "shrunk" else "ok"
    return used, SourceState(source.name, final, used.row_count, age_s, limit.max_age_s, detail=detail)


def _is_empty(source: RawSource, main: str | None) -> bool:
    return source.row_count == 0 if main is None else len(source.rows(main)) == 0


def _shrunk(source: RawSource, last_good: RawSource, share_to_keep: float) -> str:
    """The first table that has lost too many rows, or empty: an intact table must not hide a shrunk one."""
    for table in sorted(last_good.tables):
        now, before = len(source.rows(table)), len(last_good.rows(table))
        if now < before * share_to_keep:
            return f"{table}: {now} rows after {before}"
    return ""


def _age_s(source: RawSource, now: datetime) -> float | None:
    if source.newest is None:
        return None
    newest = aware(source.newest)
    return max(0.0, (now - newest).total_seconds())

"""The contract of a snapshot source: tables that are read, limits, and the value built from the rows.

Those of this distribution are modules of ``broker.snapshot.sources``, in the order of ``broker.snapshot.source_list``.
A source of another distribution is a subclass of :class:`Source`, offered by the entry point group ``broker.sources``.
It is read in the cycles of the brokerages of which a rule names it in ``sources``, is stored with the snapshot, and its
value stands in ``snapshot.offered[name]`` for the ``prepare`` of that rule; see ``docs/how-to/add-a-source.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from broker.snapshot.raw import RawSource

if TYPE_CHECKING:
    from broker.snapshot.draft import Draft
    from broker.snapshot.snapshot import Snapshot

Built = TypeVar("Built")
JobStatistics = Literal["live", "panda"]


class SourceError(Exception):
    """A source that is missing or breaks the contract; the message says what to do."""


@dataclass(frozen=True)
class TableRead:
    """One table of a source.

    Attributes:
        table: name, in the schema of PanDA's tables; ``schema.table`` for one in another schema.
        columns: columns read.
        optional: of these, in a table of PanDA's, the ones that not every schema of the last years has: NULL where they
            are missing. Without any other the source cannot be used.
        table_optional: whether a PanDA without the table has none of its rows.
        as_text: columns that hold JSON, read as text.
        stamp: column with the time at which a row was written, if it has one.
        where: SQL condition, if not all rows are wanted.
        counted: equal rows are read once, with their number in one more column, ``counted``.
        stored_as: its name among the rows of the source, when not ``table``.
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
        """Under which its rows stand in the source."""
        return self.stored_as or self.table

    @property
    def columns_stored(self) -> tuple[str, ...]:
        """The columns of its rows in the source."""
        return (*self.columns, "counted") if self.counted else self.columns


@dataclass(frozen=True)
class StatementRead:
    """Rows of a source that a statement of its own gives.

    Attributes:
        name: under which they stand in the source.
        columns_stored: their columns.
        statement: SQL; ``{key}`` stands for a table of ``tables``, ``:now`` and ``:since`` for the instant of the
            snapshot and that of ``window`` before it (naive UTC). It must sort the rows, so that equal content has an
            equal digest.
        tables: by key the table of PanDA's that is read and its columns, all of which are needed but the optional.
        window: how far ``:since`` lies back.
        newest: SQL of one value, the time of the newest row, if the rows carry one.
        optional: columns that not every schema of PanDA's of the last years has: NULL where they are missing.
        number_lists: columns with ``array_send`` of an array of bigint, stored as rising numbers with commas.
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

    ``max_age_s`` None: its rows carry no time stamps, so it has no age and no limit. ``max_shrink`` is the largest
    share of the rows of any of its tables that may be gone since the last good reading (1.0: all). ``main_table``: the
    one without which a source of several tables is empty.
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
        limit: what is asked of it, where ``config/sources.yaml`` says nothing else.
        aged_by: its name in the table of refreshes, when that gives its age and not a column of its rows.
        may_fail: a failing read stops no cycle; the state of the source is then *failed*.
        for_analysis: only the brokerage of analysis reads it.
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
    """A source whose value stands beside the tables of the snapshot, for the rules and steps that name it."""

    may_fail = True

    @abstractmethod
    def build(self, raw: RawSource, snapshot: Snapshot) -> Any:
        """Build the value for ``snapshot.offered[name]``, once a snapshot; pure, from rows read or stored alike.

        Args:
            raw: the rows; ``raw.rows(table).records()`` gives them as dictionaries.
            snapshot: the grid without the sources of other distributions.
        """


class GridSource(AnySource, ABC, Generic[Built]):
    """A source that tables of the snapshot itself are made from; ``broker.snapshot.build`` puts them together."""

    @abstractmethod
    def build(self, raw: RawSource, draft: Draft) -> Built:
        """Build the value from the rows of the source; pure, called once a snapshot.

        Args:
            raw: the rows.
            draft: the snapshot in the making: what other sources say, and where a row that cannot be used is noted.
        """

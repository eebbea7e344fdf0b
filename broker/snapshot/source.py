"""What a source of snapshots is: the tables that are read, what is asked of them, and the value made of their rows.

A source of another distribution is a subclass of :class:`Source`, offered by the entry point group ``broker.sources``.
It is read in the cycles of the brokerages of which a rule names it in ``sources``, is stored with the snapshot, and its
value stands in ``snapshot.offered[name]`` for the ``prepare`` of that rule; see ``docs/how-to/add-a-rule.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, ClassVar

from broker.snapshot.raw import RawSource

if TYPE_CHECKING:
    from broker.snapshot.snapshot import Snapshot

GROUP = "broker.sources"
_OWN = {
    "task_resource_types": "TaskResourceTypes",
    "global_share_names": "GlobalShareNames",
    "active_user_jobs": "ActiveUserJobs",
    "recent_starts": "RecentStarts",
    "task_queues": "TaskQueues",
}


class SourceError(Exception):
    """A source that is asked for but not there, or that does not keep the contract; the message says what to do."""


@dataclass(frozen=True)
class TableRead:
    """One table of a source.

    Attributes:
        table: name, in the schema of PanDA's tables; ``schema.table`` for one in another schema.
        columns: columns read; of PanDA's tables one that a database lacks gives NULL.
        as_text: columns that hold JSON, read as text.
        stamp: column with the time at which a row was written, if it has one.
        where: SQL condition, if not all rows are wanted.
        counted: equal rows are read once, with their number in one more column, ``counted``.
    """

    table: str
    columns: tuple[str, ...]
    as_text: tuple[str, ...] = ()
    stamp: str | None = None
    where: str | None = None
    counted: bool = False


@dataclass(frozen=True)
class SourceLimit:
    """What is asked of a source: age of its newest row, whether it may be empty, and how much it may shrink.

    ``max_age_s`` None: its rows carry no time stamps, so it has no age and no limit. ``max_shrink`` is the largest
    share of the rows of any of its tables that may be gone since the last good reading (1.0: all).
    """

    max_age_s: float | None = None
    may_be_empty: bool = True
    max_shrink: float = 1.0


class Source(ABC):
    """A source of snapshots.

    Attributes:
        name: as in ``config/sources.yaml``, in ``sources`` of rules, and in stored snapshots.
        reads: its tables.
        limit: what is asked of it, where ``config/sources.yaml`` says nothing else.
    """

    name: ClassVar[str]
    reads: ClassVar[tuple[TableRead, ...]]
    limit: ClassVar[SourceLimit] = SourceLimit()

    @abstractmethod
    def build(self, raw: RawSource, snapshot: Snapshot) -> Any:
        """The value for ``snapshot.offered[name]``, worked out once a snapshot; pure, and of rows read or stored alike.

        Args:
            raw: the rows; ``raw.rows(table).records()`` gives them as dictionaries.
            snapshot: the grid without the sources of other distributions.
        """


def offered() -> dict[str, EntryPoint]:
    """The sources that this and other installed distributions offer, by name; nothing is imported yet."""
    own = (EntryPoint(name, f"broker.snapshot.own_sources:{value}", GROUP) for name, value in _OWN.items())
    return {point.name: point for point in (*own, *entry_points(group=GROUP))}


@cache
def outside_source(name: str) -> Source:
    """The source of an installed distribution.

    Raises:
        SourceError: none offers it, it cannot be loaded, or it does not keep the contract.
    """
    point = offered().get(name)
    if point is None:
        raise SourceError(f"source {name}: no installed distribution offers it; install the one that does")
    try:
        found = point.load()()
    except Exception as error:  # whatever an outside module raises on import is a fault of that distribution
        raise SourceError(f"source {name}: {point.value} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Source) or getattr(found, "name", None) != name or not getattr(found, "reads", ()):
        raise SourceError(f"source {name}: {point.value} is no Source of this name with its reads")
    return found


def outside_sources(names: Iterable[str]) -> tuple[Source, ...]:
    """Those of the named sources that installed distributions offer, by name.

    Raises:
        SourceError: one of them cannot be used.
    """
    return tuple(outside_source(name) for name in sorted(set(names) & set(offered())))

"""Sources by name: those beside the tables of the snapshot, of this and of other installed distributions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint

from broker.installed import entry_points
from broker.snapshot.source import Source, SourceError
from broker.snapshot.source_list import OFFERED_SOURCES

GROUP = "broker.sources"


def offered() -> dict[str, EntryPoint]:
    """The sources that this and other installed distributions offer, by name; nothing of others is imported yet."""
    own = (EntryPoint(one.name, f"{one.__module__}:{one.__name__}", GROUP) for one in OFFERED_SOURCES)
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
    """The named sources that installed distributions offer, by name.

    Raises:
        SourceError: one of them cannot be used.
    """
    return tuple(outside_source(name) for name in sorted(set(names) & set(offered())))

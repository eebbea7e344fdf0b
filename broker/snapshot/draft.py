"""A snapshot in the making: what each source says, worked out when it is first asked for, and the dropped rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

from broker.domain.work import DroppedRow
from broker.snapshot.raw import RawSource
from broker.snapshot.source import Built, GridSource


class Draft:
    """A snapshot in the making.

    Attributes:
        now_s: seconds since 1970 UTC of its instant.
        dropped_rows: rows that could not be used, each with its reason; builders add theirs.
    """

    def __init__(self, sources: Mapping[str, RawSource], taken_at: datetime) -> None:
        """Of these sources by name; one that is not there counts as empty."""
        self._sources = sources
        self._made: dict[Any, Any] = {}
        self.now_s = taken_at.timestamp()
        self.dropped_rows: list[DroppedRow] = []

    def raw(self, name: str) -> RawSource:
        """The rows of a source."""
        return self._sources.get(name, RawSource(name, {}))

    def of(self, source: GridSource[Built]) -> Built:
        """What a source says; worked out once."""
        if source.name not in self._made:
            self._made[source.name] = source.build(self.raw(source.name), self)
        return cast(Built, self._made[source.name])  # the one place that fills it is the line above

    def once(self, make: Callable[[Draft], Built]) -> Built:
        """What is made of several sources; worked out once."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast(Built, self._made[make])  # as above

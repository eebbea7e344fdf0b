"""A snapshot under construction: values built from sources on first access, and the dropped rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime
from typing import cast

from broker.domain.work import DroppedRow
from broker.snapshot.build_cache import KeptBuild, KeptBuilds, Making
from broker.snapshot.raw import RawSource
from broker.snapshot.source import Built, GridSource

#: What stands for the digest of a source that is not there.
_ABSENT = "absent"


class Draft:
    """A snapshot in the making.

    Args:
        sources: by name; one that is not there counts as empty.
        taken_at: its instant.
        digests: of the content of sources, by name; what is made of one without is not taken over.
        kept: what was made for earlier snapshots.

    Attributes:
        dropped_rows: rows that could not be used, each with its reason; builders add theirs.
    """

    def __init__(
        self,
        sources: Mapping[str, RawSource],
        taken_at: datetime,
        digests: Mapping[str, str] | None = None,
        kept: KeptBuilds | None = None,
    ) -> None:
        self._sources, self._digests = sources, digests or {}
        self._kept = KeptBuilds() if kept is None else kept
        self._made: dict[Hashable, KeptBuild] = {}
        self._under_way: list[Making] = []
        self._now_s = taken_at.timestamp()
        self.dropped_rows: list[DroppedRow] = []

    @property
    def now_s(self) -> float:
        """Seconds since 1970 UTC of its instant; a value that reads it is rebuilt for every snapshot."""
        if self._under_way:
            self._under_way[-1].looks_at(self._now_s)
        return self._now_s

    def now_against(self, instants_s: Iterable[float]) -> float:
        """Like :attr:`now_s`, for code that only compares it with these instants: cached until the next one."""
        if self._under_way:
            self._under_way[-1].changes_at(self._now_s, instants_s)
        return self._now_s

    def raw(self, name: str) -> RawSource:
        """The rows of a source."""
        if self._under_way:
            self._under_way[-1].reads(name, self._digest(name))
        return self._sources.get(name, RawSource(name, {}))

    def of(self, source: GridSource[Built]) -> Built:
        """The value built from a source, computed once."""
        return self._value(source.name, lambda: source.build(self.raw(source.name), self))

    def once(self, make: Callable[[Draft], Built]) -> Built:
        """A value built from several sources, computed once."""
        return self._value(make, lambda: make(self))

    def _value(self, key: Hashable, make: Callable[[], Built]) -> Built:
        asking = self._under_way[-1] if self._under_way else None
        build = self._made.get(key)
        if build is not None:
            if asking is not None:
                asking.uses(build)
            return cast(Built, build.value)  # only what `make` gave is ever kept under the key
        if asking is not None:
            asking.log_rows(self.dropped_rows)
        build = self._kept.find(key, self._digest, self._now_s)
        if build is None:
            build = self._make(key, make)
        else:
            self._take_over(build)
        if asking is not None:
            asking.uses(build)
            asking.log_build(build, len(self.dropped_rows))
        return cast(Built, build.value)  # as above

    def _make(self, key: Hashable, make: Callable[[], Built]) -> KeptBuild:
        making = Making(len(self.dropped_rows))
        self._under_way.append(making)
        try:
            value = make()
        finally:
            self._under_way.pop()
        making.log_rows(self.dropped_rows)
        build = self._made[key] = making.made(key, value)
        self._kept.keep(build)
        return build

    def _take_over(self, build: KeptBuild) -> None:
        """Drop the rows that were dropped for it, and have the values that were made for it."""
        self._made[build.key] = build
        for entry in build.log:
            if isinstance(entry, DroppedRow):
                self.dropped_rows.append(entry)
            elif entry.key not in self._made:
                self._take_over(entry)

    def _digest(self, name: str) -> str | None:
        return self._digests.get(name) if name in self._sources else _ABSENT

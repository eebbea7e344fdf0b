"""A snapshot under construction: values are built from sources on first access, and reused until an input changes.

While a value is built, :class:`Draft` records the sources that it reads, by digest, and how it depends on the clock.
The next draft takes the value from the :class:`BuildCache` if all of these are unchanged, so that a snapshot costs only
what has changed since the previous one. A snapshot is the same whether its values are reused or rebuilt. The draft also
collects the dropped rows.

A value built at 100 s from the source ``schedconfig_json`` with digest ``a1`` changes at 40 s and at 160 s. It is
reused while the digest is the same and until 160 s, less a margin:

>>> cache, record = BuildCache(), BuildRecord(0)
>>> record.reads("schedconfig_json", "a1")
>>> record.changes_at(100.0, [40.0, 160.0])
>>> cache.keep(record.entry("queues", ["Q0", "Q1"]))
>>> [cache.find("queues", {"schedconfig_json": digest}.get, now) is not None
...  for digest, now in (("a1", 120.0), ("a1", 170.0), ("b2", 120.0))]
[True, False, False]
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, cast

from broker.domain.work import DroppedRow
from broker.snapshot.raw import RawSource
from broker.snapshot.source import AnySource, Built


class GridSource(AnySource, ABC, Generic[Built]):
    """A source for tables of the snapshot itself, which ``broker.snapshot.build`` assembles."""

    @abstractmethod
    def build(self, raw: RawSource, draft: Draft) -> Built:
        """Build the value from the rows of the source; pure, called once per snapshot.

        Args:
            raw: the rows.
            draft: the snapshot under construction: gives the values of other sources, and collects unusable rows.
        """


#: Closer than this (s) to an instant at which it changes, a value is rebuilt: a sum and a difference of floats may
#: round to different sides of the instant.
MARGIN_S = 1e-3

DigestOf = Callable[[str], str | None]
"""The digest of the content of a source, by its name; None if unknown."""


@dataclass(frozen=True)
class CachedBuild:
    """A value with everything from which it was built.

    Attributes:
        key: identity of the value.
        value: the value.
        digests: digests of the sources read, by name; None for one whose content has no digest.
        first_s: the first instant at which the same value would be built, s since 1970 UTC.
        until_s: the last such instant.
        log: the rows dropped and the values built for it, in order.
    """

    key: Hashable
    value: Any = field(repr=False)
    digests: Mapping[str, str | None]
    first_s: float
    until_s: float
    log: tuple[DroppedRow | CachedBuild, ...] = field(repr=False)

    def holds(self, digest_of: DigestOf, now_s: float) -> bool:
        """Whether sources with these digests at this instant would give the same value."""
        same = all(digest is not None and digest_of(name) == digest for name, digest in self.digests.items())
        return same and self.first_s <= now_s <= self.until_s


class BuildCache:
    """The last value of each key. Several threads may use it at once, since an entry is replaced as a whole."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._last: dict[Hashable, CachedBuild] = {}

    def find(self, key: Hashable, digest_of: DigestOf, now_s: float) -> CachedBuild | None:
        """The cached value of the key if building it now would give the same; otherwise None."""
        build = self._last.get(key)
        return build if build is not None and build.holds(digest_of, now_s) else None

    def keep(self, build: CachedBuild) -> None:
        """Replace the entry of the same key."""
        self._last[build.key] = build


class BuildRecord:
    """A value under construction, with its dependencies so far.

    Args:
        mark: number of dropped rows of the draft when construction began.
    """

    def __init__(self, mark: int) -> None:
        self.digests: dict[str, str | None] = {}
        self.first_s, self.until_s = -math.inf, math.inf
        self._mark = mark
        self._log: list[DroppedRow | CachedBuild] = []

    def reads(self, name: str, digest: str | None) -> None:
        """Record a dependency on a source, by the digest of its content."""
        self.digests[name] = digest

    def looks_at(self, now_s: float) -> None:
        """Record a dependency on the exact instant."""
        self.first_s = self.until_s = now_s

    def changes_at(self, now_s: float, instants_s: Iterable[float]) -> None:
        """Record a dependency on which of these instants have passed."""
        for instant_s in instants_s:
            if instant_s - MARGIN_S > now_s:
                self.until_s = min(self.until_s, instant_s - MARGIN_S)
            elif instant_s + MARGIN_S < now_s:
                self.first_s = max(self.first_s, instant_s + MARGIN_S)
            else:
                self.first_s, self.until_s = max(self.first_s, now_s), min(self.until_s, now_s)

    def depends_on(self, build: CachedBuild) -> None:
        """Record a dependency on another cached value."""
        self.digests.update(build.digests)
        self.first_s, self.until_s = max(self.first_s, build.first_s), min(self.until_s, build.until_s)

    def log_rows(self, rows: Sequence[DroppedRow]) -> None:
        """Log the rows that the draft has dropped for it since the last call."""
        self._log += rows[self._mark :]
        self._mark = len(rows)

    def log_build(self, build: CachedBuild, mark: int) -> None:
        """Log a value that was built for it, after which the draft has ``mark`` dropped rows."""
        self._log.append(build)
        self._mark = mark

    def entry(self, key: Hashable, value: Any) -> CachedBuild:
        """Return the entry for the cache: the value with its dependencies and log."""
        return CachedBuild(key, value, self.digests, self.first_s, self.until_s, tuple(self._log))


#: Stands for the digest of a source that is absent.
_ABSENT = "absent"


class Draft:
    """A snapshot under construction.

    Args:
        sources: sources by name; an absent one counts as empty.
        taken_at: instant of the snapshot.
        digests: digests of the content of sources, by name; values built from a source without one are not reused.
        cache: values built for earlier snapshots.

    Attributes:
        dropped_rows: unusable rows with their reasons; builders add theirs.
    """

    def __init__(
        self,
        sources: Mapping[str, RawSource],
        taken_at: datetime,
        digests: Mapping[str, str] | None = None,
        cache: BuildCache | None = None,
    ) -> None:
        self._sources, self._digests = sources, digests or {}
        self._cache = BuildCache() if cache is None else cache
        self._builds: dict[Hashable, CachedBuild] = {}
        self._under_way: list[BuildRecord] = []
        self._now_s = taken_at.timestamp()
        self.dropped_rows: list[DroppedRow] = []

    @property
    def now_s(self) -> float:
        """The instant in seconds since 1970 UTC; a value that reads it is rebuilt for every snapshot."""
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
        parent = self._under_way[-1] if self._under_way else None
        build = self._builds.get(key)
        if build is not None:
            if parent is not None:
                parent.depends_on(build)
            return cast(Built, build.value)  # only results of `make` are ever stored under the key
        if parent is not None:
            parent.log_rows(self.dropped_rows)
        build = self._cache.find(key, self._digest, self._now_s)
        if build is None:
            build = self._make(key, make)
        else:
            self._take_over(build)
        if parent is not None:
            parent.depends_on(build)
            parent.log_build(build, len(self.dropped_rows))
        return cast(Built, build.value)  # as above

    def _make(self, key: Hashable, make: Callable[[], Built]) -> CachedBuild:
        record = BuildRecord(len(self.dropped_rows))
        self._under_way.append(record)
        try:
            value = make()
        finally:
            self._under_way.pop()
        record.log_rows(self.dropped_rows)
        build = self._builds[key] = record.entry(key, value)
        self._cache.keep(build)
        return build

    def _take_over(self, build: CachedBuild) -> None:
        """Reuse a build: replay its dropped rows, and reuse the values that were built for it."""
        self._builds[build.key] = build
        for entry in build.log:
            if isinstance(entry, DroppedRow):
                self.dropped_rows.append(entry)
            elif entry.key not in self._builds:
                self._take_over(entry)

    def _digest(self, name: str) -> str | None:
        return self._digests.get(name) if name in self._sources else _ABSENT

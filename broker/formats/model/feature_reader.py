"""Reads Machine/Job Features repeatedly, as a pilot does: static keys once, shutdown times when they are due.

A key that is gone is no longer set: a shutdown was withdrawn. A server that does not answer gives no information: the
last good value stays. Source: HSF-TN-2016-02, directories and dynamic values.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from broker.formats.model import feature_keys, machine_job_features, untrusted_files
from broker.formats.model.feature_http import KeyResponse, fetch_all
from broker.formats.model.feature_keys import (
    BY_NAME,
    JOB,
    MACHINE,
    MAX_FILE_BYTES,
    BadTextError,
    Content,
    Directory,
    FeatureBase,
    RefusedBaseError,
    base_of,
)
from broker.formats.model.machine_job_features import Features
from broker.formats.model.untrusted_files import ReadRules

REREAD_S = (60.0, 300.0)
"""Shutdown times are read again no sooner and no later than this; in between the server's headers decide."""

Fetch = Callable[[Sequence[str]], Mapping[str, KeyResponse]]
"""Requests several addresses at once; returns the answer of each."""


@dataclass(frozen=True)
class ReaderSettings:
    """The settings of a reader.

    Attributes:
        owners: accounts whose files are trusted; ``None``: all.
        payload_may_write: the payload can write into the job's directory even where its mode does not show it.
        jitter: in [0, 1); spreads the readers of many jobs over time.
    """

    owners: Collection[int] | None = None
    payload_may_write: bool = False
    jitter: float = 0.0


@dataclass
class _CacheEntry:
    """What is known about one key, and when to read it again."""

    content: Content | None
    due: float


@dataclass
class FeatureReader:
    """Reads the two directories of one job.

    Args:
        machinefeatures: value of the variable, ``None`` if it is not set.
        jobfeatures: likewise.
        fetch_keys: requests keys from web servers, all that are due together; see :func:`web_fetch`.
        settings: see :class:`ReaderSettings`.
    """

    machinefeatures: str | None
    jobfeatures: str | None
    fetch_keys: Fetch
    settings: ReaderSettings = field(default_factory=ReaderSettings)
    _cache: dict[tuple[Directory, str], _CacheEntry] = field(default_factory=dict, init=False)

    def read(self, now: float) -> Features:
        """The keys at ``now`` (UNIX s)."""
        problems: list[str] = []
        bases = {
            directory: base
            for directory, value in ((MACHINE, self.machinefeatures), (JOB, self.jobfeatures))
            if (base := _base(directory, value, problems)) is not None
        }
        for directory, base in bases.items():
            if base.is_local:
                self._look(directory, base, now, problems)
        self._ask({directory: base for directory, base in bases.items() if not base.is_local}, now, problems)
        contents = {directory: self._contents(directory) if directory in bases else {} for directory in (MACHINE, JOB)}
        return machine_job_features.parse(contents[MACHINE], contents[JOB], tuple(problems))

    def _contents(self, directory: Directory) -> dict[str, Content]:
        return {
            name: entry.content
            for (of, name), entry in self._cache.items()
            if of == directory and entry.content is not None
        }

    def _look(self, directory: Directory, base: FeatureBase, now: float, problems: list[str]) -> None:
        due = self._due_names(directory, now)
        try:
            opened = untrusted_files.open_directory(Path(base.text))
        except OSError:
            problems.append(f"{directory}:not-readable")
            return
        if opened is None:
            problems.append(f"{directory}:missing")
            self._forget(directory, due)
            return
        try:
            trusted = not (
                directory == JOB and (self.settings.payload_may_write or untrusted_files.written_by_others(opened))
            )
            contents = untrusted_files.read_files(opened, due, ReadRules(MAX_FILE_BYTES, self.settings.owners))
        finally:
            os.close(opened)
        for name in due:
            self._keep(directory, name, contents.get(name), now, None, trusted)

    def _ask(self, bases: Mapping[Directory, FeatureBase], now: float, problems: list[str]) -> None:
        """Request all due keys at once, so that a slow server costs its time only once."""
        due = [(directory, name) for directory in bases for name in self._due_names(directory, now)]
        if not due:
            return
        places = {(directory, name): bases[directory].place_of(name) for directory, name in due}
        answers = self.fetch_keys(list(places.values()))
        for directory, name in due:
            answer = answers[places[directory, name]]
            if answer.informed:
                self._keep(directory, name, answer.content, now, answer.fresh_s, trusted=True)
                continue
            problems.append(f"{name}:no-answer")
            before = self._cache.get((directory, name))
            if before is not None:
                before.due = now + REREAD_S[0]

    def _due_names(self, directory: Directory, now: float) -> list[str]:
        """The keys to read: those never seen, and the shutdown times that are due."""
        names = feature_keys.names_of(directory)
        return [name for name in names if (entry := self._cache.get((directory, name))) is None or entry.due <= now]

    def _keep(
        self, directory: Directory, name: str, content: Content | None, now: float, fresh_s: float | None, trusted: bool
    ) -> None:
        before = self._cache.get((directory, name))
        if before is not None and not trusted and not _earlier(content, before.content):
            content = before.content
        self._cache[(directory, name)] = _CacheEntry(content, self._next(name, now, fresh_s))

    def _next(self, name: str, now: float, fresh_s: float | None) -> float:
        key = BY_NAME.get(name)
        if key is None or not key.dynamic:
            return math.inf
        shortest, longest = REREAD_S
        pause_s = min(max(shortest if fresh_s is None else fresh_s, shortest), longest)
        return now + min(pause_s * (1.0 + self.settings.jitter), longest)

    def _forget(self, directory: Directory, names: list[str]) -> None:
        for name in names:
            self._cache.pop((directory, name), None)


def _base(directory: Directory, value: str | None, problems: list[str]) -> FeatureBase | None:
    if not value:
        return None
    try:
        return base_of(value)
    except RefusedBaseError:
        problems.append(f"{directory}:refused")
        return None


def _earlier(new: Content | None, old: Content | None) -> bool:
    """Whether a time may replace another one where the payload can write: it may only become earlier."""
    return new is not None and _time(new) < _time(old)


def _time(content: Content | None) -> float:
    if content is None:
        return math.inf
    try:
        return feature_keys.count(feature_keys.text_of(content))
    except BadTextError:
        return math.inf


def web_fetch(monotonic: Callable[[], float]) -> Fetch:
    """A :data:`Fetch` that queries real servers."""
    return lambda addresses: fetch_all(addresses, monotonic)

"""Reading Machine/Job Features again and again, as a pilot does: static keys once, shutdown times when they are due.

A key that is gone is not set any more: a shutdown was withdrawn. A server that does not answer says nothing: the last
good value stays. Source: HSF-TN-2016-02, directories and dynamic values.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from broker.formats import feature_keys, machine_job_features, plain_values, small_files
from broker.formats.feature_base import FeatureBase, RefusedBaseError, base_of
from broker.formats.feature_http import Fetched, fetch
from broker.formats.feature_keys import BY_NAME, JOB, MACHINE, MAX_FILE_BYTES, Directory
from broker.formats.machine_job_features import Features
from broker.formats.plain_values import BadTextError, Content
from broker.formats.small_files import ReadRules

REREAD_S = (60.0, 300.0)
"""Shutdown times are asked for again no sooner and no later than this; in between the server's headers decide."""

Fetch = Callable[[str], Fetched]


@dataclass(frozen=True)
class ReaderSettings:
    """How a reader reads.

    Attributes:
        owners: accounts whose files are believed; ``None``: all.
        payload_may_write: the payload can write into the job's directory even where its mode does not show it.
        jitter: in [0, 1); spreads the readers of many jobs over time.
    """

    owners: Collection[int] | None = None
    payload_may_write: bool = False
    jitter: float = 0.0


@dataclass
class _Kept:
    """What is known of one key, and when to ask again."""

    content: Content | None
    due: float


@dataclass
class FeatureReader:
    """Reads the two directories of one job.

    Args:
        machinefeatures: value of the variable, ``None`` when it is not set.
        jobfeatures: likewise.
        fetch_key: asks a web server for a key; see :func:`web_fetch`.
        settings: see :class:`ReaderSettings`.
    """

    machinefeatures: str | None
    jobfeatures: str | None
    fetch_key: Fetch
    settings: ReaderSettings = field(default_factory=ReaderSettings)
    _kept: dict[tuple[Directory, str], _Kept] = field(default_factory=dict, init=False)

    def read(self, now: float) -> Features:
        """The keys at ``now`` (UNIX s)."""
        problems: list[str] = []
        contents = {
            directory: self._directory(directory, value, now, problems)
            for directory, value in ((MACHINE, self.machinefeatures), (JOB, self.jobfeatures))
        }
        return machine_job_features.parse(contents[MACHINE], contents[JOB], tuple(problems))

    def _directory(
        self, directory: Directory, value: str | None, now: float, problems: list[str]
    ) -> dict[str, Content]:
        if not value:
            return {}
        try:
            base = base_of(value)
        except RefusedBaseError:
            problems.append(f"{directory}:refused")
            return {}
        if base.is_local:
            self._look(directory, base, now, problems)
        else:
            self._ask(directory, base, now, problems)
        return {
            name: kept.content
            for (of, name), kept in self._kept.items()
            if of == directory and kept.content is not None
        }

    def _look(self, directory: Directory, base: FeatureBase, now: float, problems: list[str]) -> None:
        due = self._due_names(directory, now)
        try:
            opened = small_files.open_directory(Path(base.text))
        except OSError:
            problems.append(f"{directory}:not-readable")
            return
        if opened is None:
            problems.append(f"{directory}:missing")
            self._forget(directory, due)
            return
        try:
            trusted = not (
                directory == JOB and (self.settings.payload_may_write or small_files.written_by_others(opened))
            )
            found = small_files.read_files(opened, due, ReadRules(MAX_FILE_BYTES, self.settings.owners))
        finally:
            os.close(opened)
        for name in due:
            self._keep(directory, name, found.get(name), now, None, trusted)

    def _ask(self, directory: Directory, base: FeatureBase, now: float, problems: list[str]) -> None:
        for name in self._due_names(directory, now):
            answer = self.fetch_key(base.place_of(name))
            if answer.informed:
                self._keep(directory, name, answer.content, now, answer.fresh_s, trusted=True)
                continue
            problems.append(f"{name}:no-answer")
            before = self._kept.get((directory, name))
            if before is not None:
                before.due = now + REREAD_S[0]

    def _due_names(self, directory: Directory, now: float) -> list[str]:
        """The keys to ask for: those never seen, and the shutdown times whose time has come."""
        names = feature_keys.names_of(directory)
        return [name for name in names if (kept := self._kept.get((directory, name))) is None or kept.due <= now]

    def _keep(
        self, directory: Directory, name: str, content: Content | None, now: float, fresh_s: float | None, trusted: bool
    ) -> None:
        before = self._kept.get((directory, name))
        if before is not None and not trusted and not _earlier(content, before.content):
            content = before.content
        self._kept[(directory, name)] = _Kept(content, self._next(name, now, fresh_s))

    def _next(self, name: str, now: float, fresh_s: float | None) -> float:
        key = BY_NAME.get(name)
        if key is None or not key.dynamic:
            return math.inf
        shortest, longest = REREAD_S
        pause_s = min(max(shortest if fresh_s is None else fresh_s, shortest), longest)
        return now + min(pause_s * (1.0 + self.settings.jitter), longest)

    def _forget(self, directory: Directory, names: list[str]) -> None:
        for name in names:
            self._kept.pop((directory, name), None)


def _earlier(new: Content | None, old: Content | None) -> bool:
    """Whether a time may replace another where the payload can write: it may only come nearer."""
    return new is not None and _time(new) < _time(old)


def _time(content: Content | None) -> float:
    if content is None:
        return math.inf
    try:
        return plain_values.count(plain_values.text_of(content))
    except BadTextError:
        return math.inf


def web_fetch(monotonic: Callable[[], float]) -> Fetch:
    """A :data:`Fetch` that asks real servers."""
    return lambda address: fetch(address, monotonic)

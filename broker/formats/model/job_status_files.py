"""The directory of ``$JOBSTATUS``, written and read under the lock on ``used_CPU``: a reading shows a single instant.

The lock is BSD ``flock`` on the open file, shared for readers and exclusive for writers; POSIX record locks do not see
it. ``used_CPU`` is never replaced, only written in place: the lock belongs to the file, not to its name. Source: Job to
Machine channel, draft 0.9, list of requirements.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker.errors import BrokerError
from broker.formats.model import feature_keys, job_status
from broker.formats.model.feature_keys import BadTextError, Contents
from broker.formats.model.job_status import (
    HOLD_OFF_S,
    KEYS,
    LOCK_FILE,
    MAX_FILE_BYTES,
    REVERTED_FILE,
    STALE_AFTER_S,
    JobStatus,
    RecordUpdate,
    with_hold_off,
)
from broker.formats.model.untrusted_files import ReadRules, open_directory, read_files

LOCK_WITHIN_S = 2.0
_PAUSE_S = 0.02
_IN_PLACE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MODE = 0o644


@dataclass(frozen=True)
class Waiting:
    """The clocks that a wait for the lock needs, passed in by the caller."""

    monotonic: Callable[[], float]
    pause: Callable[[float], None]
    at_most_s: float = LOCK_WITHIN_S


class CannotWriteStatusError(BrokerError):
    """The record could not be written; the previous one remains."""


def write(
    directory: Path, texts: Mapping[str, str], waiting: Waiting, now: int, hold_off_s: int = HOLD_OFF_S
) -> RecordUpdate:
    """Write a whole record, the given keys and no other, and return what was written.

    Args:
        directory: made by the site and named in ``$JOBSTATUS``.
        texts: from :func:`broker.formats.model.job_status.texts_of`; ``used_CPU`` is one of them.
        waiting: how to wait for a reader or another writer.
        now: UNIX seconds.
        hold_off_s: how long other values stay after ``can_postpone_last_job`` turned from False to True; see
            :func:`broker.formats.model.job_status.with_hold_off`.

    Raises:
        CannotWriteStatusError: there is no such directory, no right to write, or the lock was not obtained in time.
    """
    remedy = "the site makes the directory for the account of the job; check $JOBSTATUS"
    try:
        opened = open_directory(directory)
        if opened is None:
            raise CannotWriteStatusError("there is no such directory", str(directory), remedy)
        try:
            return _write(opened, _Change(texts, now, hold_off_s), waiting, directory)
        finally:
            os.close(opened)
    except OSError as error:
        raise CannotWriteStatusError(f"cannot write: {error.strerror}", str(directory), remedy) from error


@dataclass(frozen=True)
class _Change:
    """A record that is to replace the present one: its texts, the time, and the hold-off in s."""

    texts: Mapping[str, str]
    now: int
    hold_off_s: int


def _write(opened: int, change: _Change, waiting: Waiting, directory: Path) -> RecordUpdate:
    lock_file = os.open(LOCK_FILE, _IN_PLACE | os.O_CREAT, _MODE, dir_fd=opened)
    try:
        with _locked(lock_file, fcntl.LOCK_EX, waiting) as held:
            if not held:
                raise CannotWriteStatusError(
                    f"{LOCK_FILE} was locked for more than {waiting.at_most_s:g} s",
                    str(directory),
                    "see which process holds it",
                )
            written = _held_off(opened, change)
            _put(opened, REVERTED_FILE, None if written.reverted is None else str(written.reverted))
            for key in KEYS:
                if key != LOCK_FILE:
                    _put(opened, key, written.texts.get(key))
            _rewrite(lock_file, written.texts.get(LOCK_FILE, change.texts[LOCK_FILE]))
            return written
    finally:
        os.close(lock_file)


def _held_off(opened: int, change: _Change) -> RecordUpdate:
    """The part of the change that is written now, given the present record."""
    files = read_files(opened, (*KEYS, REVERTED_FILE), ReadRules(MAX_FILE_BYTES))
    before = job_status.texts_of(job_status.parse({key: files[key] for key in KEYS if key in files}).by_key())
    try:
        reverted = feature_keys.integer(feature_keys.text_of(files.get(REVERTED_FILE, b"")))
    except BadTextError:
        reverted = None
    return with_hold_off(before, change.texts, reverted, change.now, change.hold_off_s)


def _put(opened: int, key: str, text: str | None) -> None:
    if text is None:
        try:
            os.unlink(key, dir_fd=opened)
        except FileNotFoundError:
            return
        return
    descriptor = os.open(key, _IN_PLACE | os.O_CREAT, _MODE, dir_fd=opened)
    try:
        _rewrite(descriptor, text)
    finally:
        os.close(descriptor)


def _rewrite(descriptor: int, text: str) -> None:
    data = text.encode("ascii") + b"\n"
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, data)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


@contextmanager
def _locked(descriptor: int, kind: int, waiting: Waiting) -> Iterator[bool]:
    """Whether the lock was obtained in time; it is held inside the block."""
    ends = waiting.monotonic() + waiting.at_most_s
    held = _try(descriptor, kind)
    while not held and waiting.monotonic() < ends:
        waiting.pause(_PAUSE_S)
        held = _try(descriptor, kind)
    try:
        yield held
    finally:
        if held:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read(directory: Path, now: float, waiting: Waiting, owners: Collection[int] | None = None) -> JobStatus:
    """The record in a directory; if there is none, an empty one with a flag that says why.

    A job that keeps the lock for ever does not hang the reader: after the time limit the files are read without it, and
    used only if none was written meanwhile.

    Args:
        directory: value of ``$JOBSTATUS``.
        now: UNIX seconds, for the age of the record.
        waiting: how to wait for the lock.
        owners: accounts whose files are trusted, ``None``: all.
    """
    try:
        opened = open_directory(directory)
    except OSError:
        return JobStatus(flags=("directory:not-readable",))
    if opened is None:
        return JobStatus(flags=("directory:missing",))
    try:
        return _read(opened, now, waiting, ReadRules(MAX_FILE_BYTES, owners))
    finally:
        os.close(opened)


def _read(opened: int, now: float, waiting: Waiting, rules: ReadRules) -> JobStatus:
    flags: list[str] = []
    lock_file = _open_lock(opened)
    if lock_file is None:
        files, unchanged = _read_twice(opened, rules)
    else:
        try:
            with _locked(lock_file, fcntl.LOCK_SH, waiting) as held:
                files, unchanged = _read_twice(opened, rules)
                if held:
                    unchanged = True
                else:
                    flags.append(f"{LOCK_FILE}:locked")
        finally:
            os.close(lock_file)
    if not unchanged:
        return JobStatus(flags=("record:changing", *flags))
    newest = max(_times(opened).values(), default=None)
    stale = newest is not None and now - newest / 1e9 > STALE_AFTER_S
    return job_status.parse(files, flags, stale=stale)


def _open_lock(opened: int) -> int | None:
    """The lock file, ``None`` if there is nothing that can be locked: reading it will tell why."""
    try:
        descriptor = os.open(LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=opened)
    except OSError:
        return None
    return descriptor


def _read_twice(opened: int, rules: ReadRules) -> tuple[Contents, bool]:
    before = _times(opened)
    files = read_files(opened, KEYS, rules)
    return files, before == _times(opened)


def _times(opened: int) -> dict[str, int]:
    """When each file was last written, in ns."""
    times = {}
    for key in KEYS:
        try:
            times[key] = os.stat(key, dir_fd=opened, follow_symlinks=False).st_mtime_ns
        except OSError:
            continue
    return times

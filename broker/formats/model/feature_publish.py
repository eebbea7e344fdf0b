"""What a resource provider does: write keys that no reader ever sees half-written, announce a shutdown, withdraw it.

Source: HSF-TN-2016-02, directories, shutdowntime and grace_secs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from broker.errors import BrokerError, Refused
from broker.formats.model import feature_keys
from broker.formats.model.feature_keys import BY_NAME, JOB, MACHINE, BadTextError, Directory
from broker.formats.model.untrusted_files import ReadRules, open_directory, read_file

DIRECTORY_MODE = 0o755
FILE_MODE = 0o644
SHUTDOWN_KEYS: dict[Directory, tuple[str, str]] = {
    MACHINE: ("shutdowntime", "grace_secs"),
    JOB: ("shutdowntime_job", "grace_secs_job"),
}
"""The key of the shutdown and that of its grace, by directory."""

Announced = Literal["announced", "moved", "unchanged"]


class BadFeatureError(Refused):
    """The key or value may not be published."""


class CannotPublishError(BrokerError):
    """The directory cannot be written to."""


class TooSoonError(Refused):
    """The shutdown would come sooner than the grace promised to jobs."""


class NoGraceError(Refused):
    """No grace was promised, so no shutdown may be announced to running jobs."""


@dataclass(frozen=True)
class Announcement:
    """The outcome of an announcement: the time in force, and the one before."""

    outcome: Announced
    shutdown: int
    before: int | None


def publish(directory: Path, which: Directory, values: Mapping[str, str]) -> None:
    """Check and write keys, each in one step; other keys stay as they are.

    Args:
        directory: created with mode 0755 if it does not exist.
        which: machine or job.
        values: text by key.

    Raises:
        BadFeatureError: a key or value is not one of the directory's; nothing was written.
        CannotPublishError: the directory or a file cannot be written.
    """
    for name, text in values.items():
        key = BY_NAME.get(name)
        if key is None or key.directory != which:
            known = ", ".join(known_key.name for known_key in feature_keys.keys_of(which))
            raise BadFeatureError(f"{name} is no key of {which}", str(directory), f"known are {known}")
        try:
            key.parse(feature_keys.text_of(text.encode()))
        except BadTextError as bad:
            raise BadFeatureError(
                f"{name}: {text[:40]!r} is {bad.code}", str(directory), f"write a value in {key.unit}"
            ) from bad
    try:
        directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        for name, text in values.items():
            _write(directory, name, text.strip())
    except OSError as error:
        raise CannotPublishError(
            f"cannot write: {error.strerror}", str(error.filename or directory), "check owner and mode"
        ) from error


def announce_shutdown(
    directory: Path, which: Directory, shutdown: int | None, now: int, *, jobs_run: bool = True
) -> Announcement:
    """Announce when the machine, or the job, has to be finished.

    Args:
        directory: the directory of the keys.
        which: machine or job.
        shutdown: UNIX seconds; ``None`` for the earliest that the grace allows.
        now: UNIX seconds.
        jobs_run: whether any job was promised a grace; without jobs any time from now on is allowed.

    Raises:
        NoGraceError: jobs run and no grace was published.
        TooSoonError: the time is nearer than the grace.
    """
    name, grace_name = SHUTDOWN_KEYS[which]
    grace_s = _published(directory, grace_name)
    if jobs_run and grace_s is None:
        raise NoGraceError(
            f"{grace_name} is not published, so jobs were promised nothing",
            str(directory),
            f"publish {grace_name} before jobs start, or announce while none runs",
        )
    earliest = now + (grace_s or 0 if jobs_run else 0)
    wanted = earliest if shutdown is None else shutdown
    before = _published(directory, name)
    if wanted == before:
        return Announcement("unchanged", wanted, before)
    if wanted < earliest:
        raise TooSoonError(
            f"{wanted} is {earliest - wanted} s sooner than the grace of {earliest - now} s allows",
            f"{directory}/{name}",
            f"the earliest time now is {earliest}",
        )
    publish(directory, which, {name: str(wanted)})
    return Announcement("announced" if before is None else "moved", wanted, before)


def withdraw_shutdown(directory: Path, which: Directory) -> int | None:
    """Withdraw an announcement; returns the announced time, ``None`` if there was none.

    Raises:
        CannotPublishError: the file cannot be removed.
    """
    name, _ = SHUTDOWN_KEYS[which]
    before = _published(directory, name)
    try:
        (directory / name).unlink(missing_ok=True)
    except OSError as error:
        raise CannotPublishError(
            f"cannot remove: {error.strerror}", str(directory / name), "check owner and mode"
        ) from error
    return before


def _published(directory: Path, name: str) -> int | None:
    try:
        opened = open_directory(directory)
    except OSError as error:
        raise CannotPublishError(f"cannot read: {error.strerror}", str(directory), "name a directory") from error
    if opened is None:
        return None
    try:
        content = read_file(opened, name, ReadRules(feature_keys.MAX_FILE_BYTES))
    finally:
        os.close(opened)
    if content is None:
        return None
    try:
        return feature_keys.integer(feature_keys.text_of(content))
    except BadTextError:
        return None


def _write(directory: Path, name: str, text: str) -> None:
    """Write a new file next to the old one, complete and on disk before it takes the old one's name."""
    # its name follows the rule for names in these directories, and is not a key
    beside = directory / f"new_{os.getpid()}_{name}"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), FILE_MODE)
            file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(directory / name)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise

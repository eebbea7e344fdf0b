"""Reads small files from directories that others may write to: no links, no devices, no surprises in size.

A payload owns some of these directories. It must not be able to hang the reader (FIFO, device), to make it read a file
that it cannot read itself (link), or to fill the memory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from broker.formats.model.feature_keys import TOO_LONG, Content, Unreadable

LINK = "link"
NOT_A_FILE = "not-a-regular-file"
WRONG_OWNER = "wrong-owner"
NOT_READABLE = "not-readable"

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@dataclass(frozen=True)
class ReadRules:
    """The files that are accepted: their maximum size, and their owners (``None``: anybody)."""

    max_bytes: int
    owners: Collection[int] | None = None


def open_directory(path: Path) -> int | None:
    """A descriptor of the directory, ``None`` if it does not exist.

    The caller closes it.

    Raises:
        OSError: it exists and cannot be opened, or is not a directory.
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def read_file(directory: int, name: str, rules: ReadRules) -> Content | None:
    """The content of the file ``name`` in an open directory, ``None`` if it does not exist."""
    try:
        descriptor = os.open(name, _OPEN, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        # O_NOFOLLOW gives ELOOP for a link; ENXIO means a FIFO or socket with nobody at the other end
        code = {errno.ELOOP: LINK, errno.EMLINK: LINK, errno.ENXIO: NOT_A_FILE}.get(error.errno or 0, NOT_READABLE)
        return Unreadable(code)
    try:
        return _read_opened(descriptor, rules)
    finally:
        os.close(descriptor)


def _read_opened(descriptor: int, rules: ReadRules) -> Content:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return Unreadable(NOT_A_FILE)
    if rules.owners is not None and status.st_uid not in rules.owners:
        return Unreadable(WRONG_OWNER)
    data = b""
    try:
        while len(data) <= rules.max_bytes and (more := os.read(descriptor, rules.max_bytes + 1 - len(data))):
            data += more
    except OSError:
        return Unreadable(NOT_READABLE)
    return Unreadable(TOO_LONG) if len(data) > rules.max_bytes else data


def read_files(directory: int, names: Iterable[str], rules: ReadRules) -> dict[str, Content]:
    """The contents of those of ``names`` that exist in an open directory."""
    contents = ((name, read_file(directory, name, rules)) for name in names)
    return {name: content for name, content in contents if content is not None}


def written_by_others(directory: int) -> bool:
    """Whether other accounts than the owner's may write into an open directory."""
    return bool(os.fstat(directory).st_mode & (stat.S_IWGRP | stat.S_IWOTH))

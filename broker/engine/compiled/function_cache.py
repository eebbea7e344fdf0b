"""Folder in which processes cache compiled functions; private, since its files are executed."""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import platform
import shutil
import stat
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import platformdirs

#: Where this process caches compiled functions if the folder of its user cannot be used.
other_folder: Path | None = None
_PRIVATE = 0o700
#: Files outside this package whose functions are compiled.
_FORMULAS = ("domain/waiting_limit.py",)
_log = logging.getLogger(__name__)


class UnsafeFolderError(OSError):
    """Others may write to the folder; its files are unpickled, so they could run code in this process."""


def folder() -> Path:
    """Create the folder and return it; a temporary one if it is not writable, or others may write to it.

    To see whether a function has changed, the compiler checks only its own file, not those of the functions it calls:
    each state of this package therefore has its own folder, as has each compiler.
    """
    global other_folder
    own = _of_this_state() if other_folder is None else other_folder
    try:
        _make_private(own)
        _check_private(own)
        return own
    except UnsafeFolderError as error:
        _log.warning("compiled functions are not read from %s: %s", own, error)
    except OSError as error:
        _log.info("no compiled functions can be cached in %s (%s): this process compiles them for itself", own, error)
    other_folder = Path(tempfile.mkdtemp(prefix="gridbroker-compiled-"))
    atexit.register(shutil.rmtree, other_folder, ignore_errors=True)
    return other_folder


def ready_file(cache: Path) -> Path:
    """The file that marks the cache as complete; one for each machine, as processors differ."""
    return cache / f"ready-{platform.node() or 'here'}"


def remove() -> Path:
    """Remove the damaged folder with all its files, and return its name."""
    own = _of_this_state() if other_folder is None else other_folder
    shutil.rmtree(own, ignore_errors=True)
    return own


def _of_this_state() -> Path:
    """The folder of compiled functions: not next to the source, where a service may not write."""
    digest, here = hashlib.sha256(f"{sys.implementation.cache_tag} numba {version('numba')}".encode()), Path(__file__)
    formulas = [here.parents[2] / name for name in _FORMULAS]
    for path in [*sorted(here.parent.glob("*.py")), *formulas]:
        # the compiler treats a rewritten file as a different one
        about = path.stat()
        digest.update(f"{path} {about.st_mtime_ns} {about.st_size}".encode())
        digest.update(path.read_bytes())
    return _user_cache() / "compiled" / digest.hexdigest()[:16]


def _user_cache() -> Path:
    return Path(platformdirs.user_cache_dir("gridbroker", appauthor=False))


def _make_private(path: Path) -> None:
    """Make a folder and its missing parents, for this user alone."""
    if not path.is_dir():
        _make_private(path.parent)
        path.mkdir(mode=_PRIVATE, exist_ok=True)


def _check_private(path: Path) -> None:
    """Raise if anyone but this user and root could write to the folder or replace it.

    Raises:
        UnsafeFolderError: others may.
        PermissionError: this process has no right to write there.
    """
    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise UnsafeFolderError(
            f"it belongs to user {about.st_uid} and has mode {stat.filemode(about.st_mode)}; it has to be a folder of "
            f"user {os.geteuid()} alone (drwx------): remove it, or set XDG_CACHE_HOME to a folder that others cannot "
            "write"
        )
    for parent in path.resolve().parents:
        above = parent.stat()
        others_write = above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX
        if above.st_uid not in (0, os.geteuid()) or others_write:
            raise UnsafeFolderError(
                f"others may exchange it, as {parent} belongs to user {above.st_uid} and has mode "
                f"{stat.filemode(above.st_mode)}: run chmod go-w {parent}, or set XDG_CACHE_HOME to another folder"
            )
    if not os.access(path, os.W_OK):
        raise PermissionError("no right to write")

"""The folder in which compiled functions are kept, and the word in it that all of them are there."""

from __future__ import annotations

import atexit
import logging
import os
import platform
import shutil
import tempfile
from pathlib import Path

from broker.engine.compiled import jit

_log = logging.getLogger(__name__)


def folder() -> Path:
    """The folder, made; another that goes with this process where it cannot be written."""
    own = jit.folder()
    try:
        own.mkdir(parents=True, exist_ok=True)
        if os.access(own, os.W_OK):
            return own
        why = "no right to write"
    except OSError as error:
        why = str(error)
    _log.info("no compiled functions can be kept in %s (%s): this process compiles them for itself", own, why)
    jit.other_folder = Path(tempfile.mkdtemp(prefix="gridbroker-compiled-"))
    atexit.register(shutil.rmtree, jit.other_folder, ignore_errors=True)
    return jit.other_folder


def ready_file(kept: Path) -> Path:
    """The file that says that all is there; one for each machine, as another may have another processor."""
    return kept / f"ready-{platform.node() or 'here'}"

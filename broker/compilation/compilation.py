"""The process that compiles the loop for one that goes on meanwhile."""

from __future__ import annotations

import atexit
import logging
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from broker.compilation.kept_functions import folder, ready_file
from broker.engine.compiled import jit

_MODULE = "broker.compilation.warm_up"
_log = logging.getLogger(__name__)


@dataclass
class Compilation:
    """The process that compiles, started when the loop is wanted first.

    Attributes:
        kept: the folder in which it leaves compiled functions.
        process: None while it was not needed.
        failed: it ended without them.
    """

    kept: Path | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    failed: bool = field(default=False, init=False)

    def is_compiled(self) -> bool:
        """Whether loading the loop compiles nothing; starts the process that compiles where it would."""
        if self.failed:
            return False
        self.kept = self.kept or folder()
        if ready_file(self.kept).exists():
            return True
        log = self.kept / "warm_up.log"
        if self.process is None:
            self.process = self._start(self.kept, log)
        elif code := self.process.poll():
            self.failed = True
            _log.warning(
                "the loop of cycles could not be compiled (exit code %d): see %s; cycles are decided without it, more "
                "slowly and with the same result; restart to try again",
                code,
                log,
            )
        return False

    def _start(self, kept: Path, log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603  # this package by this interpreter
                [sys.executable, "-m", _MODULE, str(kept)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        if kept == jit.other_folder:
            atexit.register(process.kill)  # else it outlives a short command, and the next one finds what it has made
        return process

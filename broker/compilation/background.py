"""One-time compilation of the loop in another process, so that the process that decides need not wait.

Compiling takes as long as several cycles; meanwhile cycles are decided in Python, with the same result.
"""

from __future__ import annotations

import atexit
import logging
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from broker.engine.compiled import function_cache, loading


def install() -> None:
    """Let this process run the loop in Python until it is compiled. Costs nothing until the first cycle."""
    loading.is_compiled = _is_compiled


def _is_compiled() -> bool:
    return _compilation().is_compiled()


@cache
def _compilation() -> Compilation:

    return Compilation()


_MODULE = "broker.compilation.warm_up"
_log = logging.getLogger(__name__)


@dataclass
class Compilation:
    """The process that compiles, started by the first cycle.

    Attributes:
        cache: the folder to which it writes compiled functions.
        process: the process; None until it is needed.
        failed: whether it ended without compiling them.
    """

    cache: Path | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    failed: bool = field(default=False, init=False)

    def is_compiled(self) -> bool:
        """Whether the loop is compiled already; start the compiling process if it is not."""
        if self.failed:
            return False
        # looked up each time, because a damaged cache is removed
        self.cache = function_cache.folder()
        if function_cache.ready_file(self.cache).exists():
            return True
        log = self.cache / "warm_up.log"
        code = None if self.process is None else self.process.poll()
        if self.process is None or code == 0:
            self.process = self._start(self.cache, log)
        elif code:
            self.failed = True
            _log.warning(
                "the loop of cycles could not be compiled (exit code %d): see %s; cycles are decided without it, more "
                "slowly and with the same result; restart to try again",
                code,
                log,
            )
        return False

    def _start(self, cache: Path, log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603  # this package by this interpreter
                [sys.executable, "-m", _MODULE, str(cache)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        if cache == function_cache.other_folder:
            atexit.register(process.kill)  # else it outlives a short command, and the next one finds its output
        return process

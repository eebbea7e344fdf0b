"""The only place that starts pilots.

A pilot ends other processes of its user: at the end of each job it sends SIGTERM, then SIGKILL to the process group of
every process of its own account whose parent is process 1. So it gets two fences, and without both nothing is started:
``PILOT_NOKILL``, with which it leaves that out, and a PID namespace of its own, in which it sees no other process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
PROGRAM = "pilot.py"
# Process 1 of its namespace goes on as the program, which stays process 1. In any other place nothing is started. The
# list of processes must be that of the namespace as well: the pilot reads it to find whom to end.
_ONLY_INSIDE = '[ "$$" = 1 ] && [ "$(cat /proc/1/comm)" = sh ] && [ -n "$PILOT_NOKILL" ] || exit 97; exec "$@"'
_NOT_INSIDE = 97
PROBE_WITHIN_S = 30.0
END_WITHIN_S = 30.0


class NoNamespace(RuntimeError):
    """A PID namespace of its own cannot be had; no pilot was started."""


@dataclass
class PilotLauncher:
    """Starts pilots, each in a namespace of its own.

    Attributes:
        python: with the version that the pilot needs.
        source: unpacked source archive of the pilot, with ``pilot.py``.
        namespace: the command that makes a namespace.
    """

    python: Path
    source: Path
    namespace: Sequence[str] = NAMESPACE
    _is_fenced: bool = field(default=False, init=False)

    @contextlib.contextmanager
    def running(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A pilot that works in ``folder``; it and all that it started are ended with the block.

        Raises:
            NoNamespace: nothing was started.
        """
        self.check()
        command = [str(self.python), str(self.source / PROGRAM), *arguments]
        with (folder / "pilot.out").open("ab") as output:
            process = subprocess.Popen(
                self._fenced(command),
                cwd=folder,
                env=self._environment(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            kill(process)

    def check(self) -> None:
        """See whether a namespace can be had.

        Raises:
            NoNamespace: it cannot.
        """
        if self._is_fenced:
            return
        if shutil.which(self.namespace[0]) is None:
            raise NoNamespace(f"{self.namespace[0]} is not installed (util-linux); no pilot was started")
        probe = subprocess.run(
            self._fenced(["sh", "-c", "echo $$ $(ls -d /proc/[0-9]* | wc -l)"]),
            env=self._environment({}),
            capture_output=True,
            text=True,
            timeout=PROBE_WITHIN_S,
            check=False,
        )
        number, _, processes = probe.stdout.strip().partition(" ")
        # the shell, its inner one, ls and wc
        if probe.returncode != 0 or number != "1" or not processes.isdigit() or int(processes) > 4:
            said = probe.stderr.strip() or probe.stdout.strip() or f"status {probe.returncode}"
            raise NoNamespace(
                f"no PID namespace of its own ({' '.join(self.namespace)}: {said}); no pilot was started: it would end"
                " other processes of this account; run as root or where users may make namespaces"
            )
        self._is_fenced = True

    def _fenced(self, command: Sequence[str]) -> list[str]:
        return [*self.namespace, "sh", "-c", _ONLY_INSIDE, "sh", *command]

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, **more, "PILOT_NOKILL": "1"}


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a pilot as a node that loses its power would: with all that it started."""
    with contextlib.suppress(ProcessLookupError):
        # the namespace ends with its process 1, which ends with this one (--kill-child)
        process.send_signal(signal.SIGKILL)
    process.wait(END_WITHIN_S)

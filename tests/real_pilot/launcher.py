"""The only place that starts pilots.

A pilot ends other processes of its user: at the end of each job it sends SIGTERM, then SIGKILL to the process group of
every process of its own account whose parent is process 1. Two fences prevent this, and no pilot is started without
both: ``PILOT_NOKILL`` switches it off, and a separate PID namespace hides all other processes.
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
# Process 1 of the namespace replaces itself by the program. Anywhere else nothing is started. /proc must be that of the
# namespace as well: the pilot reads it to find the processes to end.
_ONLY_INSIDE = '[ "$$" = 1 ] && [ "$(cat /proc/1/comm)" = sh ] && [ -n "$PILOT_NOKILL" ] || exit 97; exec "$@"'
_NOT_INSIDE = 97
PROBE_WITHIN_S = 30.0
END_WITHIN_S = 30.0


class NoNamespace(RuntimeError):
    """No separate PID namespace is available; no pilot was started."""


@dataclass
class PilotLauncher:
    """Starts pilots, each in its own namespace.

    Attributes:
        python: the Python interpreter of the version that the pilot needs.
        source: the unpacked source archive of the pilot, with ``pilot.py``.
        namespace: the command that creates a namespace.
    """

    python: Path
    source: Path
    namespace: Sequence[str] = NAMESPACE
    _is_fenced: bool = field(default=False, init=False)

    @contextlib.contextmanager
    def running(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a pilot in ``folder``; it and all processes that it started are killed at the end of the block.

        Raises:
            NoNamespace: no namespace is available; nothing was started.
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
        """Check that a namespace can be created.

        Raises:
            NoNamespace: it cannot be created.
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
        # the shell, its subshell, ls and wc
        if probe.returncode != 0 or number != "1" or not processes.isdigit() or int(processes) > 4:
            error = probe.stderr.strip() or probe.stdout.strip() or f"status {probe.returncode}"
            raise NoNamespace(
                f"no PID namespace of its own ({' '.join(self.namespace)}: {error}); no pilot was started: it would end"
                " other processes of this account; run as root or where users may make namespaces"
            )
        self._is_fenced = True

    def _fenced(self, command: Sequence[str]) -> list[str]:
        return [*self.namespace, "sh", "-c", _ONLY_INSIDE, "sh", *command]

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**inherited, **variables, "PILOT_NOKILL": "1"}


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a pilot and all processes that it started, like a power failure of its node."""
    with contextlib.suppress(ProcessLookupError):
        # the namespace ends with its process 1, which ends with this process (--kill-child)
        process.send_signal(signal.SIGKILL)
    process.wait(END_WITHIN_S)

"""The CPU time and memory of all processes of a PostgreSQL server on this machine, from /proc."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

from benchmarks.measuring import cpu_of
from broker.store.connection.database import Database

_PERIOD_S = 0.02


def postmaster_of(database: Database) -> int:
    """Return the main process of a server on this machine."""
    with database.begin() as connection:
        folder = connection.exec_driver_sql("SHOW data_directory").scalar_one()
    return int((Path(folder) / "postmaster.pid").read_text(encoding="ascii").split()[0])


class ServerWatch:
    """Samples the processes of a server fifty times a second while the block runs.

    For a process that ends meanwhile, the last sample counts. The figures are available after the block.

    Attributes:
        cpu_s: the CPU seconds of the processes.
        own_mb: the peak of their total private memory.
        shared_mb: the largest amount of shared buffers that one of them had touched.
    """

    def __init__(self, postmaster: int) -> None:
        self.cpu_s = self.own_mb = self.shared_mb = 0.0
        self._postmaster = postmaster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="server-watch", daemon=True)
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}

    def _watch(self) -> None:
        while not self._over.wait(_PERIOD_S):
            self._look()

    def _look(self) -> None:
        children = Path(f"/proc/{self._postmaster}/task/{self._postmaster}/children").read_text(encoding="ascii")
        own_mb = 0.0
        for process in [self._postmaster, *map(int, children.split())]:
            seconds = cpu_of(process)
            if seconds == seconds:  # NaN if the process has ended
                self._last[process] = seconds
            private, shared = _memory_mb(process)
            own_mb += private
            self.shared_mb = max(self.shared_mb, shared)
        self.own_mb = max(self.own_mb, own_mb)

    def __enter__(self) -> ServerWatch:
        self._look()
        self._first = dict(self._last)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._look()
        self.cpu_s = sum(seconds - self._first.get(process, 0.0) for process, seconds in self._last.items())


def _memory_mb(process: int) -> tuple[float, float]:
    """Return the private memory and the touched shared buffers of a process; zeros if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0, 0.0
    values = dict(line.split(":", 1) for line in lines if ":" in line)
    private, shared = (int(values.get(name, "0").split()[0]) / 1024 for name in ("RssAnon", "RssShmem"))
    return private, shared

"""Several processes that serve the API on one port; the system divides the connections among them.

Each has its own matchers and request limits. A process that ends is replaced. All end with the process that started
them, however that ends. They serve no pages, since page sessions are kept in one process.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType

from broker.api.process import configure, serving
from broker.api.server import START_WITHIN_S, ListenOptions, NotListening, bound
from broker.garbage_collection import keep_what_is_there
from broker.store.connection.database import Database
from broker.store.connection.opening import guarded
from broker.store.connection.tables import Names

_LOOK_EVERY_S = 0.5
_STOP_WITHIN_S = 20.0
THREADS_TAKE_TURNS_S = 0.0005
"""Seconds after which a thread that reads task queues yields to the thread that answers requests."""
_spawn = multiprocessing.get_context("spawn")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Served:
    """What each worker serves.

    Attributes:
        url: database URL.
        names: names of the database schemas.
        listening: where to listen, with the port that all share.
        home: home folder of the broker, with the token file.
        folder: folder of the operator's own configuration files.
    """

    url: str
    names: Names
    listening: ListenOptions
    home: Path
    folder: Path | None


@dataclass(frozen=True)
class _Worker:
    """A process and our end of a pipe to it: it reports there that it serves, and ends when the pipe is closed."""

    process: SpawnProcess
    pipe: Connection


class Workers:
    """Serving processes; :meth:`look` replaces those that have ended.

    Args:
        served: what they serve.
        count: number of processes.
    """

    def __init__(self, served: Served, count: int) -> None:
        self.served = served
        self._workers = [_start(served) for _ in range(count)]

    @property
    def processes(self) -> tuple[int, ...]:
        """Process ids of the workers."""
        return tuple(worker.process.pid or 0 for worker in self._workers)

    def wait_until_they_serve(self) -> None:
        """Return once all of them answer.

        Raises:
            NotListening: a process does not answer; it logged the reason.
        """
        for worker in self._workers:
            if not worker.pipe.poll(START_WITHIN_S) or not _reports_serving(worker.pipe):
                raise NotListening("a worker did not start", f"worker {worker.process.pid}", "see the log")

    def look(self) -> None:
        """Start a replacement for each process that has ended."""
        for place, worker in enumerate(self._workers):
            if not worker.process.is_alive():
                _log.warning(
                    "worker ended", extra={"fields": {"pid": worker.process.pid, "status": worker.process.exitcode}}
                )
                worker.pipe.close()
                self._workers[place] = _start(self.served)

    def stop(self) -> None:
        """Let them answer pending requests, then end."""
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(_STOP_WITHIN_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


def _start(served: Served) -> _Worker:
    ours, its = _spawn.Pipe()
    process = _spawn.Process(target=_serve, args=(served, its), daemon=True)
    process.start()
    its.close()
    return _Worker(process, ours)


def _reports_serving(pipe: Connection) -> bool:
    """Return whether a worker that reported back serves; one that has ended reports nothing more."""
    try:
        return bool(pipe.recv())
    except EOFError:
        return False


@contextmanager
def workers_serving(
    database: Database, listening: ListenOptions, count: int, *, home: Path, folder: Path | None
) -> Iterator[tuple[str, Workers]]:
    """Serve the API with ``count`` processes while the block runs; yields its address and the workers.

    Raises:
        NotListening: the address is not available, or a worker did not start.
    """
    shared = replace(listening, shared=True)
    keeper = bound(shared, listens=False)
    try:
        port = keeper.getsockname()[1]
        host = f"[{listening.host}]" if ":" in listening.host else listening.host
        served = Served(database.url, database.names, replace(shared, port=port), home, folder)
        workers = Workers(served, count)
        try:
            workers.wait_until_they_serve()
            yield f"{listening.scheme}://{host}:{port}", workers
        finally:
            workers.stop()
    finally:
        keeper.close()


def _prepare_for_requests() -> None:
    """Keep other work in this process from delaying requests."""
    sys.setswitchinterval(THREADS_TAKE_TURNS_S)
    keep_what_is_there()  # what has been imported


def _serve(served: Served, pipe: Connection) -> None:
    """Run one worker; it ends on request, or when the pipe closes because the parent process is gone."""
    # Ctrl-C reaches all processes: the first one tells the others
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        signals.append(number)

    signal.signal(signal.SIGTERM, stop)
    configure()
    with (
        guarded(Database(served.url, served.names)) as database,
        serving(database, served.listening, home=served.home, folder=served.folder) as running,
    ):
        _prepare_for_requests()
        pipe.send(True)
        while running.server.alive and not signals and not pipe.poll(_LOOK_EVERY_S):
            pass

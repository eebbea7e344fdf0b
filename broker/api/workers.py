"""Several processes that serve the API on one port: the system divides the connections among them.

Each has its own matchers and limits of requests. One that ends is replaced. They end with the process that started
them, however that ends. Sessions of the page are kept in one process, so that these serve no page.
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
from broker.api.server import START_WITHIN_S, Listening, NotListening, bound
from broker.garbage_collection import keep_what_is_there
from broker.store.connection.database import Database
from broker.store.connection.opening import guarded
from broker.store.connection.tables import Names

_LOOK_EVERY_S = 0.5
_STOP_WITHIN_S = 20.0
THREADS_TAKE_TURNS_S = 0.0005
"""A thread that reads task queues lets the one that answers requests go on after so long."""
_spawn = multiprocessing.get_context("spawn")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Served:
    """What each worker serves.

    Attributes:
        url: of the database.
        names: of its schemas.
        listening: where, with the port that all share.
        home: of the broker, with the token file.
        folder: with configuration files of the operator's own.
    """

    url: str
    names: Names
    listening: Listening
    home: Path
    folder: Path | None


@dataclass(frozen=True)
class _Worker:
    """A process, and our end of a pipe to it: it says there that it serves, and ends when the pipe is closed."""

    process: SpawnProcess
    pipe: Connection


class Workers:
    """Processes that serve; :meth:`look` replaces those that ended.

    Args:
        served: what they serve.
        count: of them.
    """

    def __init__(self, served: Served, count: int) -> None:
        self.served = served
        self._workers = [_start(served) for _ in range(count)]

    @property
    def processes(self) -> tuple[int, ...]:
        """Their numbers."""
        return tuple(one.process.pid or 0 for one in self._workers)

    def wait_until_they_serve(self) -> None:
        """Return when all of them answer.

        Raises:
            NotListening: one does not; it wrote why to the log.
        """
        for one in self._workers:
            if not one.pipe.poll(START_WITHIN_S) or not _said(one.pipe):
                raise NotListening("a worker did not start", f"worker {one.process.pid}", "see the log")

    def look(self) -> None:
        """Start another worker for each that ended."""
        for place, one in enumerate(self._workers):
            if not one.process.is_alive():
                _log.warning("worker ended", extra={"fields": {"pid": one.process.pid, "status": one.process.exitcode}})
                one.pipe.close()
                self._workers[place] = _start(self.served)

    def stop(self) -> None:
        """Have them answer what was asked, and end."""
        for one in self._workers:
            one.pipe.close()
        for one in self._workers:
            one.process.join(_STOP_WITHIN_S)
            if one.process.is_alive():
                one.process.kill()
                one.process.join()


def _start(served: Served) -> _Worker:
    ours, its = _spawn.Pipe()
    process = _spawn.Process(target=_serve, args=(served, its), daemon=True)
    process.start()
    its.close()
    return _Worker(process, ours)


def _said(pipe: Connection) -> bool:
    """Whether a worker that said something serves; one that ended says nothing more."""
    try:
        return bool(pipe.recv())
    except EOFError:
        return False


@contextmanager
def workers_serving(
    database: Database, listening: Listening, count: int, *, home: Path, folder: Path | None
) -> Iterator[tuple[str, Workers]]:
    """Serve the API by ``count`` processes while the block runs; its address, and the workers.

    Raises:
        NotListening: the address cannot be had, or a worker did not start.
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
    """Keep requests from waiting for what goes on beside them in this process."""
    sys.setswitchinterval(THREADS_TAKE_TURNS_S)
    keep_what_is_there()  # what was imported


def _serve(served: Served, pipe: Connection) -> None:
    """One worker: it ends when it is told to, or when the pipe closes since the process that started it is gone."""
    # a key that is pressed reaches all: the first process tells the others
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    signal.signal(signal.SIGTERM, stop)
    configure()
    with (
        guarded(Database(served.url, served.names)) as database,
        serving(database, served.listening, home=served.home, folder=served.folder) as running,
    ):
        _prepare_for_requests()
        pipe.send(True)
        while running.server.alive and not asked and not pipe.poll(_LOOK_EVERY_S):
            pass

"""The queue of runs: a few run at a time, each in a process of its own that can be ended."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from datetime import datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from broker.api.plain import plain
from broker.api.problems import problem_of
from broker.api.state import ApiState
from broker.redaction import redact
from broker.store.connection.database import Database
from broker.store.connection.opening import guarded
from broker.store.connection.tables import Names
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.whatif.answers import long_runs
from broker.whatif.statements import runs

TELL_EVERY_S = 0.3


class CancelledRun(Exception):
    """The run was cancelled."""


def main(url: str, names: Names, run: int, now: datetime, config: Path | None) -> None:
    """Do run number ``run`` of the database at ``url`` and store its result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with guarded(Database(url, names, application_name="gridbroker run", pool_size=1)) as database:
        with database.begin() as connection:
            stored = runs.find(connection, run)
        if stored is None:
            return
        state, result, problem = _done(database, stored, now, config)
        with database.begin() as connection:
            runs.end(connection, run, state, result, problem)


def _done(
    database: Database, stored: runs.Run, now: datetime, config: Path | None
) -> tuple[runs.State, Any, dict[str, Any] | None]:
    reported_s = [float("-inf")]

    def report_progress(done: int, total: int) -> None:
        if time.monotonic() - reported_s[0] < TELL_EVERY_S and done < total:
            return
        reported_s[0] = time.monotonic()
        with database.begin() as connection:
            if not runs.note_progress(connection, stored.id, done, total):
                raise CancelledRun

    try:
        request = long_runs.KINDS[stored.kind].model_validate(stored.asked)
        return "done", plain(long_runs.run(database, request, now, config, report_progress)), None
    except CancelledRun:
        return "cancelled", None, None
    except Exception as error:
        problem = problem_of(error)
        return "failed", None, {"code": problem.code, "detail": redact(problem.detail), "remedy": problem.remedy}


_log = logging.getLogger(__name__)
LOOK_EVERY_S = 2.0
BUSY_EVERY_S = 0.5
STOP_WITHIN_S = 5.0


class RunQueue:
    """Starts waiting runs and supervises their processes.

    Args:
        api: of the application.
    """

    def __init__(self, api: ApiState) -> None:
        self._api = api
        self._context = multiprocessing.get_context("spawn")
        self._under_way: dict[int, BaseProcess] = {}
        self._wake, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="runs", daemon=True)
        self._holder = f"{socket.gethostname()}:{os.getpid()}"

    def start(self) -> None:
        """Start the thread that takes runs."""
        self._thread.start()

    def wake(self) -> None:
        """Look for runs at once."""
        self._wake.set()

    def stop(self) -> None:
        """Take no more runs, and end those that are running."""
        self._ending.set()
        self._wake.set()
        self._thread.join(STOP_WITHIN_S * 2)

    def _work(self) -> None:
        while not self._ending.is_set():
            try:
                self._look()
            except TRANSIENT_ERRORS as error:
                _log.warning("runs wait: database", extra={"fields": {"error": str(error)}})
            self._wake.wait(BUSY_EVERY_S if self._under_way else LOOK_EVERY_S)
            self._wake.clear()
        for run, process in list(self._under_way.items()):
            self._end(run, process, "failed", {"code": "process_stopped", "detail": "the API was stopped"})

    def _look(self) -> None:
        for run, process in list(self._under_way.items()):
            self._look_after(run, process)
        while len(self._under_way) < self._api.configuration.runs.at_once and not self._ending.is_set():
            with self._api.database.begin() as connection:
                claimed = runs.claim(connection, self._holder)
            if claimed is None:
                return
            self._start(claimed)

    def _start(self, run: int) -> None:
        arguments = (self._api.database.url, self._api.database.names, run, self._api.now(), self._api.folder)
        process = self._context.Process(target=main, args=arguments, name=f"run {run}", daemon=True)
        process.start()
        self._under_way[run] = process

    def _look_after(self, run: int, process: BaseProcess) -> None:
        if not process.is_alive():
            self._end(run, process, "failed", {"code": "process_lost", "detail": f"exit status {process.exitcode}"})
            return
        with self._api.database.begin() as connection:
            goes_on = runs.note_alive(connection, run)
        if not goes_on:
            self._end(run, process, "cancelled", None)

    def _end(self, run: int, process: BaseProcess, state: runs.State, problem: dict[str, str] | None) -> None:
        """End the process of a run; an end that the process has stored itself stays."""
        process.join(0.1)
        if process.is_alive():
            process.terminate()
            process.join(STOP_WITHIN_S)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()
        del self._under_way[run]
        with suppress(*TRANSIENT_ERRORS), self._api.database.begin() as connection:
            runs.end(connection, run, state, None, problem)

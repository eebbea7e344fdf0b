"""Runs take their turn: each process of the API decides a few at a time, each in a process of its own."""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
import threading
from contextlib import suppress
from multiprocessing.process import BaseProcess

from broker.api.run_process import main
from broker.api.state import ApiState
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.http import runs

_log = logging.getLogger(__name__)
LOOK_EVERY_S = 2.0
BUSY_EVERY_S = 0.5
STOP_WITHIN_S = 5.0


class RunQueue:
    """Takes runs that wait, and looks after the processes that do them.

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
        """Begin to take runs."""
        self._thread.start()

    def wake(self) -> None:
        """Look for runs at once."""
        self._wake.set()

    def stop(self) -> None:
        """Take no more, and end those that are under way."""
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
        """End the process of a run; what it has written of its end by itself stays."""
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

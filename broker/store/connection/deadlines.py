"""Callbacks for work that has taken too long, run by one thread for all of them."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator

_log = logging.getLogger(__name__)


class Deadlines:
    """Runs callbacks at instants of the monotonic clock, from a thread of its own.

    Callbacks must not block, because later ones wait for them.
    """

    def __init__(self) -> None:
        """The thread starts with the first deadline."""
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    @contextlib.contextmanager
    def after(self, seconds: float, call: Callable[[], None]) -> Iterator[Callable[[], float]]:
        """Run ``call`` if the block still runs after ``seconds`` (infinity: never). Yields the function ``left_s``."""
        due = time.monotonic() + seconds

        def left_s() -> float:
            return due - time.monotonic()

        if seconds == float("inf"):
            yield left_s
            return
        number = next(self._numbers)
        with self._changed:
            self._calls[number] = call
            heapq.heappush(self._due, (due, number))
            self._start()
            if self._due[0][1] == number:
                self._changed.notify()
        try:
            yield left_s
        finally:
            with self._changed:
                self._calls.pop(number, None)

    def _forget(self) -> None:
        self._numbers = itertools.count()
        self._calls: dict[int, Callable[[], None]] = {}
        self._due: list[tuple[float, int]] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._wait()
                _, number = heapq.heappop(self._due)
                call = self._calls.pop(number, None)
            if call is not None:
                _run_call(call)

    def _wait(self) -> None:
        """Wait until the first deadline is due; drop deadlines that are no longer needed on the way."""
        while True:
            while self._due and self._due[0][1] not in self._calls:
                heapq.heappop(self._due)
            left_s = self._due[0][0] - time.monotonic() if self._due else None
            if left_s is not None and left_s <= 0:
                return
            self._changed.wait(left_s)


def _run_call(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception:
        # the other deadlines still need this thread
        _log.exception("what should happen at a deadline failed")


DEADLINES = Deadlines()
"""The deadlines of this process."""

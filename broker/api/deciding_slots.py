"""Deciding on request takes a core for seconds: only a few requests of a process may do so at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from broker.api.problems import Problem
from broker.api.state import ApiState

AT_ONCE = 2
_NAME = "deciding slots"
_making = threading.Lock()


@contextmanager
def slot(api: ApiState) -> Iterator[None]:
    """One of the places for requests that decide.

    Raises:
        Problem: 503, all are taken for longer than a request waits.
    """
    with _making:
        slots = api.kept.setdefault(_NAME, threading.Semaphore(AT_ONCE))
    if not slots.acquire(timeout=api.configuration.database.wait_s):
        raise Problem(503, "busy_deciding", "other requests are being decided", headers={"Retry-After": "5"})
    try:
        yield
    finally:
        slots.release()

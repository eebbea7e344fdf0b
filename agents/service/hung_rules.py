"""Ending a rule that hangs: when the time of a cycle is used up, the rule that runs is interrupted and named.

A cycle looks at its time between its steps, and a rule is one step: a rule that never comes back would hold the cycle
and its thread for good. Python can raise an exception in another thread, which ends what runs in the interpreter. What
waits outside of it (for a server, a lock, a compiled loop) comes back only by itself: then the cycle is overdue, and
only the end of the process ends its thread.

Source: Python documentation, C API, ``PyThreadState_SetAsyncExc``.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from broker.store.connection.deadlines import DEADLINES


class RuleInterrupted(BaseException):
    """Raised inside a rule by another thread. No ``Exception``: neither rule nor engine is to go on after it."""


class CycleThread:
    """The thread of a cycle, for others that look after it.

    Attributes:
        interrupted: the rule in which it was interrupted; None while it was not.
    """

    def __init__(self) -> None:
        """The thread is the one that calls; the cycle runs."""
        self.interrupted: str | None = None
        self._ident = threading.get_ident()
        self._runs = True
        self._lock = threading.Lock()

    def rule(self) -> str | None:
        """The rule, or step of a profile, that runs now; None when none does."""
        from broker.rules.contract import Rule, Step

        frame: FrameType | None = sys._current_frames().get(self._ident)
        while frame is not None:
            owner = frame.f_locals.get("self")
            if isinstance(owner, Rule | Step):
                return owner.name
            frame = frame.f_back
        return None

    def interrupt(self) -> None:
        """End the rule that runs, if one does; may be called from any thread, and does not block."""
        with self._lock:
            rule = self.rule() if self._runs else None
            if rule is not None:
                self.interrupted = rule
                _raise_in(self._ident, RuleInterrupted)

    def leave(self) -> None:
        """The cycle is over: nothing is raised in its thread from here on."""
        with self._lock:
            self._runs = False
            if self.interrupted is not None:
                _raise_in(self._ident, None)


@contextlib.contextmanager
def interrupted_after(seconds: float) -> Iterator[CycleThread]:
    """The block is a cycle, and a rule of it that runs after ``seconds`` is interrupted.

    Raises:
        RuleInterrupted: in the block.
    """
    thread = CycleThread()
    try:
        with DEADLINES.after(seconds, thread.interrupt):
            yield thread
    finally:
        thread.leave()


def _raise_in(ident: int, kind: type[BaseException] | None) -> None:
    """Raise ``kind`` in a thread when it next runs Python; None takes back what it has not met yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), None if kind is None else ctypes.py_object(kind))

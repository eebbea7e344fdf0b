"""A replacement for JEDI's other processes while PanDA's brokers are timed: it repeats earlier answers from memory."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Mapping
from time import thread_time
from typing import Any

#: Calls that would write, and the results that mean success to a broker; nothing is written, so the grid never changes.
WRITES: Mapping[str, Any] = {"setCloudToTasks_JEDI": True, "updateTask_JEDI": (True, 1)}


class Remembered:
    """Caches an interface of PanDA's: its target is called once for each call with the same arguments.

    As through JEDI's pipes, each answer is a new object, so that a broker may change it. The cost of making it is added
    to :attr:`spent_s`, to be subtracted from the time of the broker.

    Args:
        target: answers calls that are not in the cache.

    Attributes:
        spent_s: CPU seconds inside calls, of all threads.
        asked: the number of calls.
        missed: the number of calls that the target had to answer.
    """

    def __init__(self, target: Any) -> None:
        self._target = target
        self._answers: dict[tuple[str, bytes], bytes] = {}
        self._lock = threading.Lock()
        self.start_anew()

    def start_anew(self) -> None:
        """Reset the counts; the cached answers are kept."""
        self.spent_s, self.asked, self.missed = 0.0, 0, 0

    def getInterface(self, *_: Any) -> Remembered:  # noqa: N802 - PanDA's name
        """Return the interface of a VO; there is only one."""
        return self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in WRITES:
            return lambda *args, **kwargs: WRITES[name]

        def call(*args: Any, **kwargs: Any) -> Any:
            start_s = thread_time()
            try:
                return self._answer(name, args, kwargs)
            finally:
                spent_s = thread_time() - start_s
                with self._lock:
                    self.spent_s += spent_s
                    self.asked += 1

        return call

    def _answer(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        key = name, pickle.dumps((args, kwargs))
        answer = self._answers.get(key)
        if answer is None:
            answer = pickle.dumps(getattr(self._target, name)(*args, **kwargs))
            with self._lock:
                self._answers[key] = answer
                self.missed += 1
        return pickle.loads(answer)  # noqa: S301 - our own bytes

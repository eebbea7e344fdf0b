"""JEDI's calls to its other processes, in this process: pickled both ways, status codes turned into exceptions."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

#: There is one connection, and brokers ask from several threads.
_ONE_AT_A_TIME = threading.RLock()


class Remote:
    """An object as JEDI's brokers see it through a pipe.

    Args:
        target: what is called.
    """

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop("useResultCache", None)
            given, named = _copied((args, kwargs))
            with _ONE_AT_A_TIME:
                return _copied(_unwrapped(getattr(self._target, name)(*given, **named)))

        return call

    def getInterface(self, *_: Any) -> Remote:
        """The interface of a VO: there is one."""
        return self


def _copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes


def _unwrapped(answer: Any) -> Any:
    from pandajedi.jedicore import Interaction

    if isinstance(answer, Interaction.StatusCode):
        _raise(answer, None)
        return None
    if isinstance(answer, tuple | list) and answer and isinstance(answer[0], Interaction.StatusCode):
        rest = answer[1] if len(answer) == 2 else tuple(answer[1:])
        _raise(answer[0], rest)
        return rest
    return answer


def _raise(status: Any, value: Any) -> None:
    from pandajedi.jedicore import Interaction

    if status == Interaction.SC_FATAL:
        raise Interaction.JEDIFatalError(str(value))
    if status != Interaction.SC_SUCCEEDED:
        raise Interaction.JEDITemporaryError(str(value))

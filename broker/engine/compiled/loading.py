"""Whether and when a process loads the compiled loops: not for a command that asks about one task.

Loading takes as long as the loop saves over some two thousand chunks, so it is loaded once a process has decided that
many, or has as many before it. The loop of the task brokerage saves less: most of its loading time is the compiler,
which is already loaded where chunks were decided. Decisions are the same with loops and without them.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable
from typing import Any, Literal

from broker.engine.compiled import function_cache
from broker.garbage_collection import keep_what_is_there

#: Chunks that pay for loading the loop.
CHUNKS_THAT_PAY = 2_000
#: Tasks that pay for loading their loop, without the compiler and with it.
TASKS_THAT_PAY, TASKS_THAT_PAY_THEN = 40_000, 4_000
_OF_CHUNKS, _OF_TASKS = "broker.engine.compiled.placing", "broker.engine.compiled.nuclei"
_COMPILER = "numba"
#: ``never`` keeps this process from loading the loop, ``always`` has it loaded for the next cycle, compiled or not.
mode: Literal["where it pays", "never", "always"] = "where it pays"
#: Whether loading compiles nothing. A process that does not want to wait for the compiler replaces this function, as
#: :mod:`broker.compilation.background` does.
is_compiled: Callable[[], bool] = lambda: True  # noqa: E731  # a function that is replaced
_seen = 0
_tasks_seen = 0
#: How often the loops could not be loaded; after the second time this process goes on without them.
_failed = 0
#: Whether the log already says that the compiler would pay here.
_has_logged_hint = False
#: The modules whose functions have been read.
_read_modules: dict[str, Any] = {}
_log = logging.getLogger(__name__)


def load_compiled_loop(chunks: int) -> Any | None:
    """The module with the loop; None without a compiler, while it does not pay, or while it is being compiled.

    Args:
        chunks: of the cycle that is about to be decided.
    """
    global _seen
    _seen += chunks
    return _loaded(_OF_CHUNKS, _seen >= CHUNKS_THAT_PAY)


def load_compiled_task_loop(tasks: int) -> Any | None:
    """Like :func:`load_compiled_loop`, for the module with the loop of the task brokerage.

    Args:
        tasks: of the cycle that is about to be decided.
    """
    global _tasks_seen
    _tasks_seen += tasks
    return _loaded(_OF_TASKS, _tasks_seen >= (TASKS_THAT_PAY_THEN if _COMPILER in sys.modules else TASKS_THAT_PAY))


def _loaded(module: str, pays: bool) -> Any | None:
    if mode == "never" or (mode != "always" and not pays):
        return None
    if _failed > 1:
        return None
    if importlib.util.find_spec(_COMPILER) is None:
        _tell_of_extra()
        return None
    if module in _read_modules:
        return _read_modules[module]
    return _first_loaded(module) if mode == "always" or is_compiled() else None


def _tell_of_extra() -> None:
    """Log once that cycles of this size would be decided sooner with the compiler."""
    global _has_logged_hint
    if not _has_logged_hint:
        _has_logged_hint = True
        _log.warning(
            "cycles are decided without a compiler: with numba they would take a third of the time here and end in the "
            "same result. Install gridbroker[fast] and restart the service"
        )


def _first_loaded(module: str) -> Any | None:
    """The module, with its functions read or compiled; None where that fails, so that cycles go on in Python.

    Unreadable files are removed: a file cut short by a full disk or a crash would otherwise stay.
    """
    global _failed
    try:
        return _imported(module)
    except Exception as error:  # unpickling damaged data raises nearly any error, and a cycle needs no loop
        _failed += 1
        _log.warning(
            "the compiled functions in %s cannot be read (%s: %s): removed; cycles are decided without them, more "
            "slowly and with the same result, %s",
            function_cache.remove(),
            type(error).__name__,
            error,
            "until they have been compiled again" if _failed == 1 else "until this process is restarted",
        )
        return None


def _imported(module: str) -> Any:
    """Import the module. The compiler that comes with it stays until the end, some 300,000 objects.

    Garbage collection, every few cycles, would visit all of them: 0.26 s, as long as it takes to decide a thousand
    chunks.
    """
    function_cache.folder()
    # if another thread is importing it, this waits
    loop_module = importlib.import_module(module)
    # functions are read on their first call: here, so that no cycle fails on a damaged file
    loop_module.call_first()
    keep_what_is_there()
    _read_modules[module] = loop_module
    return loop_module

"""Whether and when a process loads the compiled loop: not for a command that asks about one task.

Loading takes as long as the loop saves over some two thousand chunks, so that it is loaded once a process has decided
so many, or has as many before it. What is decided is the same with it and without it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, Literal

#: Chunks that pay for loading it.
CHUNKS_THAT_PAY = 2_000
_MODULE = "broker.engine.compiled.placing"

#: ``never`` keeps this process from loading the loop, ``always`` has it loaded for the next cycle, compiled or not.
mode: Literal["where it pays", "never", "always"] = "where it pays"
#: Whether loading compiles nothing. A process that does not want to wait for the compiler gives its own answer here,
#: as :mod:`broker.compilation.background` does.
is_compiled: Callable[[], bool] = lambda: True  # noqa: E731  # a function that is replaced
_seen = 0


def loop_for(chunks: int) -> Any | None:
    """The module with the loop; None where there is no compiler, it does not pay so far, or is being compiled.

    Args:
        chunks: of the cycle that is about to be decided.
    """
    global _seen
    _seen += chunks
    if mode == "never" or (mode != "always" and _seen < CHUNKS_THAT_PAY):
        return None
    if importlib.util.find_spec("numba") is None:
        return None
    return importlib.import_module(_MODULE) if mode == "always" or is_compiled() else None

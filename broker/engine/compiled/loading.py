"""Whether and when a process loads the compiled loop: not for a command that asks about one task.

Loading takes as long as the loop saves over some two thousand chunks, so that it is loaded once a process has decided
so many, or has as many before it. What is decided is the same with it and without it.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Literal

#: Chunks that pay for loading it.
CHUNKS_THAT_PAY = 2_000
_MODULE = "broker.engine.compiled.placing"

#: ``never`` keeps this process from loading the loop, ``always`` has it loaded for the next cycle.
mode: Literal["where it pays", "never", "always"] = "where it pays"
_seen = 0


def loop_for(chunks: int) -> Any | None:
    """The module with the loop; None where the extra ``compiled`` is missing, or it does not pay so far.

    Args:
        chunks: of the cycle that is about to be decided.
    """
    global _seen
    _seen += chunks
    if mode == "never" or (mode != "always" and _seen < CHUNKS_THAT_PAY):
        return None
    return importlib.import_module(_MODULE) if importlib.util.find_spec("numba") is not None else None

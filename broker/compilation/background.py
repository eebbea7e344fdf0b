"""The compiled loop for processes that do not wait for the compiler: another process compiles it, once.

Compiling takes as long as several cycles; meanwhile cycles are decided in Python, with the same result.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from broker.engine.compiled import loading

if TYPE_CHECKING:
    from broker.compilation.compilation import Compilation


def install() -> None:
    """Have this process go on in Python where the loop is not compiled yet. Costs nothing until a cycle wants it."""
    loading.is_compiled = _is_compiled


def _is_compiled() -> bool:
    return _compilation().is_compiled()


@cache
def _compilation() -> Compilation:
    from broker.compilation.compilation import Compilation

    return Compilation()

"""The compiler. Modules that use it are imported only where it pays."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar, cast

from broker.engine.compiled import function_cache

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])


def compiled(function: FunctionT) -> FunctionT:
    """Compile the function on its first call, or read it from another process's cache.

    Nothing is reassociated or contracted, and a division by zero gives what numpy gives.
    """
    import numba

    _set_folder()
    return cast(FunctionT, numba.njit(cache=True, error_model="numpy", nogil=True)(function))


def inlined(function: FunctionT) -> FunctionT:
    """Like :func:`compiled`, inlined into its callers: for a function called for each pair or file.

    A call would pass every array of the columns in the arguments, and count references to it.
    """
    import numba

    _set_folder()
    return cast(FunctionT, numba.njit(cache=True, error_model="numpy", nogil=True, forceinline=True)(function))


@cache
def _set_folder() -> None:
    """Tell the compiler where to cache, before the first function."""
    import numba

    numba.config.CACHE_DIR = str(function_cache.folder())

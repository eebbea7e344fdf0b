"""The compiler, and where what it made is kept between processes. Modules that use it are imported where it pays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import platformdirs

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])


def _folder() -> Path:
    """Where compiled functions are kept: not beside the source, where a service may have no right to write.

    Of a function the compiler only looks at its own file to see whether it has changed, not at those that it calls:
    each state of this package therefore has a folder of its own.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return Path(platformdirs.user_cache_dir("gridbroker", appauthor=False)) / "compiled" / digest.hexdigest()[:16]


def compiled(function: FunctionT) -> FunctionT:
    """The function compiled when it is first called, or read from what another process has compiled.

    Nothing is reassociated or contracted, and a division by zero gives what numpy gives.
    """
    import numba

    if not numba.config.CACHE_DIR:
        numba.config.CACHE_DIR = str(_folder())
    return cast(FunctionT, numba.njit(cache=True, error_model="numpy", nogil=True)(function))

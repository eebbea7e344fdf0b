"""The compiler, and where what it made is kept between processes. Modules that use it are imported where it pays."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar, cast

import platformdirs

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])

#: Where this process keeps compiled functions instead, as it has no right to write where they belong.
other_folder: Path | None = None


def folder() -> Path:
    """Where compiled functions belong: not beside the source, where a service may have no right to write.

    Of a function the compiler only looks at its own file to see whether it has changed, not at those that it calls:
    each state of this package therefore has a folder of its own, as has each compiler.
    """
    if other_folder is not None:
        return other_folder
    digest = hashlib.sha256(f"{sys.implementation.cache_tag} numba {version('numba')}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        # the compiler takes a file that was written again for another one
        about = path.stat()
        digest.update(f"{path} {about.st_mtime_ns} {about.st_size}".encode())
        digest.update(path.read_bytes())
    return Path(platformdirs.user_cache_dir("gridbroker", appauthor=False)) / "compiled" / digest.hexdigest()[:16]


def compiled(function: FunctionT) -> FunctionT:
    """The function compiled when it is first called, or read from what another process has compiled.

    Nothing is reassociated or contracted, and a division by zero gives what numpy gives.
    """
    import numba

    numba.config.CACHE_DIR = str(folder())
    return cast(FunctionT, numba.njit(cache=True, error_model="numpy", nogil=True)(function))


def inlined(function: FunctionT) -> FunctionT:
    """The same for a function that is called for each pair or file: it becomes part of those that call it.

    A call would hand over every array of the columns that the function is given, and count who holds it.
    """
    import numba

    numba.config.CACHE_DIR = str(folder())
    return cast(FunctionT, numba.njit(cache=True, error_model="numpy", nogil=True, forceinline=True)(function))

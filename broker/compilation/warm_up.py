"""Compilation of the loop ahead of its use: ``python -m broker.compilation.warm_up FOLDER``."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import traceback
from pathlib import Path

from broker.engine.compiled import function_cache

#: Compiling is not urgent: processes that decide have priority.
_NICENESS = 10


def compile_all() -> None:
    """Compile everything that cycles call by placing empty blocks."""
    from broker.engine.compiled import nuclei, placing

    placing.call_first()
    nuclei.call_first()


def main(cache: Path) -> None:
    """Fill the folder, one process at a time, and mark it as complete."""
    os.nice(_NICENESS)
    function_cache.other_folder = cache
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = function_cache.ready_file(cache)
        if not ready.exists():
            _compile_into(cache)
            _write_through(cache)
            ready.touch()


def _compile_into(cache: Path) -> None:
    """Compile everything; on failure, once more without the remains of an interrupted attempt."""
    try:
        compile_all()
    except Exception:  # unpickling damaged data may raise nearly any exception
        traceback.print_exc()
        for path in cache.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        compile_all()


def _write_through(cache: Path) -> None:
    """Wait until the files are on the disk, so that the mark of completeness cannot outlive them."""
    for path in cache.rglob("*"):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

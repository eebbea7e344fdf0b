"""Compiles the loop ahead of its use: ``python -m broker.compilation.warm_up FOLDER``."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import numpy as np

from broker.compilation.kept_functions import ready_file
from broker.engine.compiled import jit
from broker.engine.compiled.columns import CHUNK, LIMITS, LISTED, QUEUE, USE, Columns, Files, FlatBlock, Moving, Parts
from broker.engine.compiled.flat_block import room_for
from broker.engine.compiled.loop_parts import no_user_pairs, no_users
from broker.engine.compiled.steps import NO_NEW_WEIGHT
from broker.engine.task.task_block import TaskBlock
from broker.engine.task.task_block import room_for as room_for_tasks

#: Compiling is not urgent: what decides goes first.
_NICENESS = 10


def compile_all() -> None:
    """Compile everything that cycles call, by placing blocks without any chunk or task."""
    compile_chunks()
    compile_tasks()


def compile_chunks() -> None:
    """The loop of job brokerages."""
    from broker.engine.compiled.placing import placed_until

    block, users = _no_chunks(), no_users()
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
    columns = Columns(
        chunks=np.zeros(0, dtype=CHUNK),
        queues=np.zeros(0, dtype=QUEUE),
        limits=np.zeros((0, 0), dtype=LIMITS),
        files=Files(none, none, none, none, none, nothing, np.zeros((4, 1), dtype=np.int64)),
        parts=Parts(
            np.zeros(0, dtype=USE),
            np.zeros(0, dtype=LISTED),
            none,
            none,
            nothing,
            none,
            np.zeros((0, 0), dtype=np.bool_),
        ),
    )
    moving = Moving(none, none, 0, 0, none, none, np.zeros(0), NO_NEW_WEIGHT)
    placed_until(0, 0, moving, block, columns, users, no_user_pairs(), room_for(block, 0, 0, 0, users))


def compile_tasks() -> None:
    """The loop of the task brokerage."""
    from broker.engine.compiled.nuclei import place_all

    tasks = _no_tasks()
    place_all(np.zeros(0, dtype=np.int64), tasks, room_for_tasks(tasks, 0))


def _no_chunks() -> FlatBlock:
    """A block without chunks, with arrays of the types that every block has."""
    return FlatBlock(
        row=0,
        offset=np.zeros(1, dtype=np.int64),
        queue=np.zeros(0, dtype=np.int64),
        load=np.zeros((5, 0)),
        all_local=np.zeros(0, dtype=np.bool_),
        fixed=np.zeros((0, 0)),
        factors=np.zeros((0, 0)),
        urgent=np.zeros(0, dtype=np.bool_),
        best=np.zeros(0, dtype=np.int64),
        left=np.zeros(0, dtype=np.bool_),
        position=np.zeros((0, 0), dtype=np.int16),
        placed=np.zeros((1, 1)),
        moved=np.zeros(1, dtype=np.bool_),
    )


def _no_tasks() -> TaskBlock:
    """The same for the loop of tasks."""
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
    return TaskBlock(
        first=0,
        preset=none,
        offset=np.zeros(1, dtype=np.int64),
        nucleus=none,
        share_work=nothing,
        fixed=np.zeros((0, 0)),
        tag=none,
        adds=nothing,
        fraction=nothing,
        placed=np.zeros((1, 1)),
        independent=False,
    )


def main(kept: Path) -> None:
    """Fill the folder, one process at a time, and say in it that all is there."""
    os.nice(_NICENESS)
    jit.other_folder = kept
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = ready_file(kept)
        if not ready.exists():
            compile_all()
            ready.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

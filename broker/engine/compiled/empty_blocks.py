"""Blocks without any chunk or task: calling the loops with these reads or compiles them, and does nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from broker.engine.compiled.columns import (
    CHUNK,
    LIMITS,
    LISTED,
    QUEUE,
    USE,
    Columns,
    Files,
    FlatBlock,
    MovingRules,
    Parts,
)
from broker.engine.compiled.loop_parts import NO_NEW_WEIGHT, no_user_pairs, no_users, room_for
from broker.engine.compiled.loop_steps import MOST_ARGUMENTS
from broker.engine.task.placing import TaskBlock, room_for as room_for_tasks


def no_chunks() -> tuple[Any, ...]:
    """Arguments of :func:`broker.engine.compiled.placing.placed_until`, with the types that every cycle has."""
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
    figures, given = np.zeros(0), np.zeros((0, MOST_ARGUMENTS))
    moving = MovingRules(none, given, none, given, 0, figures, 0, none, given, none, figures, NO_NEW_WEIGHT, figures)
    return 0, 0, moving, block, columns, users, no_user_pairs(), room_for(block, 0, 0, 0, users)


def no_tasks() -> tuple[Any, ...]:
    """Arguments of :func:`broker.engine.compiled.nuclei.place_all`, with the types that every cycle has."""
    tasks = _no_tasks()
    return np.zeros(0, dtype=np.int64), np.zeros((0, MOST_ARGUMENTS)), tasks, room_for_tasks(tasks, 0)


def _no_chunks() -> FlatBlock:
    """A block without chunks."""
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
    """A block without tasks."""
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

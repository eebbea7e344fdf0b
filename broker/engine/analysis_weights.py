"""The new basic weight: W_s by the classes of queue and task, times W_q by the room that the user has left.

Source: ATLAS Analysis Job Brokerage, new basic weight; the numbers and fall-backs where it is silent are PanDA's.
"""

from __future__ import annotations

import numpy as np

from broker.domain.analysis import CLASS_A, CLASS_C, SITE_HI, SITE_LO, SITE_MID
from broker.domain.arrays import Bools, Floats

EPSILON_1, EPSILON_2 = 0.05, 0.002
#: Shares of which classes are looked at.
CLASSED_SHARES = ("User Analysis", "Express Analysis")
#: W_q is not less than this part of W_s before it is divided.
LEAST_PART = 0.001
#: Added at the end, so that no candidate weighs nothing.
LEAST = 2.0**-20

_NJ = np.nan
#: By task class (C, B, A and S) and queue class (lo, mid, hi); NaN stands for the number of jobs.
_TABLE = np.array([[_NJ, EPSILON_1, EPSILON_2], [EPSILON_1, _NJ, EPSILON_2], [EPSILON_2, EPSILON_1, _NJ]])


def class_weight(jobs: Floats, task_class: Floats, queue_class: Floats, classed: Bools) -> Floats:
    """W_s (T, Q). A task without a class is of A, a queue without one is mid.

    Args:
        jobs: (T, 1) jobs that the chunk would make.
        task_class: (T, 1), NaN unknown.
        queue_class: (1, Q), NaN unknown.
        classed: (T, 1) the share is one of which classes are looked at.
    """
    of_task = np.clip(np.nan_to_num(task_class, nan=CLASS_A), CLASS_C, CLASS_A) - CLASS_C
    of_queue = np.clip(np.nan_to_num(queue_class, nan=SITE_MID), SITE_LO, SITE_HI) - SITE_LO
    weight = _TABLE[of_task.astype(np.int64), of_queue.astype(np.int64)]
    return np.asarray(np.where(classed & ~np.isnan(weight), weight, jobs), dtype=np.float64)


def queue_weight(room: Floats, w_s: Floats, jobs: Floats, left: Bools, merging: Bools) -> Floats:
    """W_q (T, Q): the room of the user at a candidate, as a part of that at all of them.

    Args:
        room: (T, Q) max_q_len - nQ of the user, not below 0.
        w_s: (T, Q).
        jobs: (T, 1) jobs that the chunk would make.
        left: (T, Q) the candidates.
        merging: (T, 1).
    """
    room = np.where(left, np.maximum(room, 0.0), 0.0)
    count = np.maximum(left.sum(axis=1, keepdims=True), 1)
    total = room.sum(axis=1, keepdims=True)
    rest = total - jobs
    fair = np.maximum(room - jobs / count, LEAST_PART * w_s)
    of_rest = np.divide(fair, rest, out=np.zeros_like(room), where=(rest > 0) & ~merging)
    of_all = np.divide(room, total, out=np.broadcast_to(1.0 / count, room.shape).copy(), where=total > 0)
    return np.asarray(np.where((rest > 0) & ~merging, of_rest, of_all))


def new_basic_weight(
    room: Floats, jobs: Floats, classes: tuple[Floats, Floats, Bools], left: Bools, merging: Bools
) -> Floats:
    """W_s x W_q (T, Q), above 0; ``classes`` are those of :func:`class_weight`."""
    w_s = class_weight(jobs, *classes)
    return np.asarray(w_s * queue_weight(room, w_s, jobs, left, merging) + LEAST)

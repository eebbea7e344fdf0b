"""The new basic weight: W_s by the classes of queue and task, times W_q by the room that the user has left.

Source: ATLAS Analysis Job Brokerage, new basic weight; the numbers and fall-backs where it is silent are PanDA's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.analysis import CLASS_A, CLASS_B, CLASS_C, SITE_HI, SITE_LO, SITE_MID
from broker.domain.arrays import Bools, Floats, Ints

EPSILON_1, EPSILON_2 = 0.05, 0.002
#: For jobs spread by room: what a class without jobs gets, and what a class of B gives to the one below.
LEAST_OF_CLASS, FROM_MID_TO_LO = 0.001, 0.1
#: Shares in which classes count.
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
        classed: (T, 1) whether classes count in the share.
    """
    of_task = np.clip(np.nan_to_num(task_class, nan=CLASS_A), CLASS_C, CLASS_A) - CLASS_C
    of_queue = np.clip(np.nan_to_num(queue_class, nan=SITE_MID), SITE_LO, SITE_HI) - SITE_LO
    weight = _TABLE[of_task.astype(np.int64), of_queue.astype(np.int64)]
    return np.asarray(np.where(classed & ~np.isnan(weight), weight, jobs), dtype=np.float64)


def queue_weight(room: Floats, w_s: Floats, jobs: Floats, feasible: Bools, merging: Bools) -> Floats:
    """W_q (T, Q): the room of the user at a candidate, as a part of the room at all candidates.

    Args:
        room: (T, Q) max_q_len - nQ of the user, not below 0.
        w_s: (T, Q).
        jobs: (T, 1) jobs that the chunk would make.
        feasible: (T, Q) the candidates.
        merging: (T, 1).
    """
    room = np.where(feasible, np.maximum(room, 0.0), 0.0)
    count = np.maximum(feasible.sum(axis=1, keepdims=True), 1)
    total = room.sum(axis=1, keepdims=True)
    rest = total - jobs
    fair = np.maximum(room - jobs / count, LEAST_PART * w_s)
    of_rest = np.divide(fair, rest, out=np.zeros_like(room), where=(rest > 0) & ~merging)
    of_all = np.divide(room, total, out=np.broadcast_to(1.0 / count, room.shape).copy(), where=total > 0)
    return np.asarray(np.where((rest > 0) & ~merging, of_rest, of_all))


def new_basic_weight(
    room: Floats, jobs: Floats, classes: tuple[Floats, Floats, Bools], feasible: Bools, merging: Bools
) -> Floats:
    """W_s x W_q (T, Q), above 0; ``classes`` are those of :func:`class_weight`."""
    w_s = class_weight(jobs, *classes)
    return np.asarray(w_s * queue_weight(room, w_s, jobs, feasible, merging) + LEAST)


@dataclass(frozen=True)
class Competition:
    """Figures with which the unified queues of one chunk's candidates compete, each once.

    Attributes:
        room: (N,) the room that the user has left.
        queue_class: (N,) SITE_LO, SITE_MID or SITE_HI.
        jobs: that the chunk would make.
        task_class: of the task.
        classed: whether classes count in the share.
        merging: the chunk merges.
    """

    room: Floats
    queue_class: Ints
    jobs: float
    task_class: float
    classed: bool
    merging: bool


def weight_by_room(seen: Competition) -> Floats:
    """(N,): the new basic weight with jobs spread over the classes by the room in each.

    Source: PanDA analysis brokerage, new basic weight.
    A task of class B or A fills its own class first, and the classes below with what is left over.
    """
    if not seen.classed:
        return _shared_out(seen.room, np.full(len(seen.room), seen.jobs), seen.merging, len(seen.room))
    jobs = _jobs_of_classes(seen)
    weight = np.zeros(len(seen.room))
    for queue_class in (SITE_HI, SITE_MID, SITE_LO):
        inside = seen.queue_class == queue_class
        if inside.any():
            main = np.full(int(inside.sum()), jobs[queue_class])
            weight[inside] = _shared_out(seen.room[inside], main, seen.merging, len(main))
    return weight


def _jobs_of_classes(seen: Competition) -> dict[int, float]:
    room = {
        queue_class: float(seen.room[seen.queue_class == queue_class].sum())
        for queue_class in (SITE_HI, SITE_MID, SITE_LO)
    }
    jobs = dict.fromkeys(room, LEAST_OF_CLASS)
    rest = min(seen.jobs, sum(room.values()))
    own = CLASS_A if np.isnan(seen.task_class) else seen.task_class
    if own == CLASS_C:
        jobs[SITE_LO] = rest
    elif own == CLASS_B:
        jobs[SITE_MID] = min(rest, room[SITE_MID])
        jobs[SITE_LO] = rest - jobs[SITE_MID]
        if jobs[SITE_MID] > 0:
            jobs[SITE_MID] -= FROM_MID_TO_LO
            jobs[SITE_LO] += FROM_MID_TO_LO
    else:
        jobs[SITE_HI] = min(rest, room[SITE_HI])
        rest -= jobs[SITE_HI]
        jobs[SITE_MID] = min(rest, room[SITE_MID])
        jobs[SITE_LO] = rest - jobs[SITE_MID]
        if jobs[SITE_HI] > 0:
            jobs[SITE_HI] -= EPSILON_1 + EPSILON_2
            jobs[SITE_MID] += EPSILON_1
            jobs[SITE_LO] += EPSILON_2
    return jobs


def _shared_out(room: Floats, jobs: Floats, merging: bool, count: int) -> Floats:
    """The jobs of a class (or of all queues) times the part of each queue, above 0."""
    total = float(room.sum())
    rest = total - jobs
    if rest[0] > 0 and not merging:
        part = np.maximum(room - jobs / count, LEAST_PART * jobs) / rest
    else:
        part = room / total if total > 0 else np.full(len(room), 1.0 / count)
    return np.asarray(jobs * part + LEAST)

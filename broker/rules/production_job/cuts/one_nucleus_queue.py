"""Tasks that request the nucleus alone get one of its queues."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, Floats, GroupCut, Load, Observation, Reason, number


class OneNucleusQueue(GroupCut):
    """Keeps the queue with most running jobs of all shares, or the first of these by name, for a negative t1Weight.

    Queues without any jobs that follow it by name stay. Not for merging. Source: PanDA production brokerage, caps and
    ordering (negative t1Weight).
    """

    name = "one_nucleus_queue"
    reason = Reason(
        code="t1_weight",
        title="The queue has most running jobs, for a negative t1Weight",
        violation="The task runs at one queue of its nucleus, and another one runs more jobs",
        no_candidate="runs most jobs at the nucleus",
        who="wait",
        cure="Nothing is wrong: the busiest queue of the nucleus gets the jobs. Submit without `t1Weight` to use "
        "others.",
    )
    sources = ("jobs",)
    provenance = "PanDA production brokerage, caps and ordering"

    @property
    def reads_details(self) -> bool:
        """True: which tasks request the nucleus alone, and the running jobs of all shares, are details."""
        return True

    def keep_among(self, alive: Bools, load: Load, weight: Floats) -> Bools:
        """Shape of ``weight``: true at the remaining queue with most running jobs, for tasks that request one queue."""
        if load.details is None:
            return np.ones_like(alive)
        shape = np.shape(weight)
        asks = np.broadcast_to(load.details.one_nucleus_queue, shape)
        running = np.broadcast_to(load.details.all_running, shape)
        measured = np.where(alive & ~load.bootstrap, running, -1.0)
        best = measured.max(axis=-1, keepdims=True, initial=-1.0)
        is_best = (measured == best) & (best >= 0)
        first = is_best & (np.cumsum(is_best, axis=-1) == 1)
        behind = np.cumsum(first, axis=-1) > 0
        none_measured = best < 0
        survivors = first | (load.bootstrap & (behind | none_measured))
        return np.asarray(survivors | ~asks)

    def observe(self, load: Load, weight: Floats) -> Observation:
        """Running jobs of all shares at the queue."""
        running = None if load.details is None else number(load.details.all_running)
        return Observation(running, "==", "the most", "jobs", "task.splitrule.TW")

"""A chunk gets few queues: those that its task has used, filled up to five with the heaviest."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, Floats, GroupCut, Load, Observation, Reason, number
from broker.snapshot.sources.task_queues import TASK_QUEUES

FEWEST_QUEUES = 5


class FiveQueues(GroupCut):
    """Keeps every queue at which the task has output, and the heaviest of the others until there are 5.

    Among equal weights the first by name is taken, where PanDA draws at random. Source: PanDA JEDI, GenJobBroker.
    """

    name = "five_queues"
    reason = Reason(
        code="five_queues",
        title="The task has used the queue, or it is among the five heaviest",
        violation="Five other queues were used by the task before, or weigh more",
        no_candidate="is among the five heaviest",
        who="wait",
        cure="Nothing is wrong: the queue passed every rule, and better ones were taken.",
    )
    sources = (TASK_QUEUES,)
    provenance = "PanDA JEDI, GenJobBroker"

    def keep_among(self, alive: Bools, load: Load, weight: Floats) -> Bools:
        """Shape of ``weight``: True where the candidate passes."""
        used = alive & (False if load.preferred is None else load.preferred)
        measured = np.where(alive & ~used, weight, -1.0)
        # heaviest first, equal weights in the order of names
        order = np.argsort(-measured, axis=-1, kind="stable")
        place = np.argsort(order, axis=-1, kind="stable")
        room = FEWEST_QUEUES - used.sum(axis=-1, keepdims=True)
        return np.asarray(used | (alive & (place < room)))

    def observe(self, load: Load, weight: Floats) -> Observation:
        """The weight of the queue."""
        return Observation(number(weight), "in", "the 5 heaviest", "-", "rule")

"""Queues that work through their jobs come first."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import CompiledStep, Floats, Load, LoadWeight

QUEUED_OFFSET = 10.0
LARGEST_MANY_ASSIGNED = 2.0


class RunningQueued(LoadWeight):
    """``(running + 1) / (activated + assigned + starting + defined + 10) / manyAssigned``, jobs of the share.

    manyAssigned is ``(assigned + 1) / (activated + 1)``, limited to 1 to 2. It and the assigned jobs are dropped where
    all input is local, because jobs that wait for data do not hold up those that need none. ``running`` is the largest
    of its readings. Source: ATLAS Production Job Brokerage, initial weight.
    """

    name = "running_queued"
    code = "running_queued"
    title = "Prefers queues with many running and few waiting jobs"
    sources = ("jobs",)
    queued_offset: float = QUEUED_OFFSET
    largest_many_assigned: float = LARGEST_MANY_ASSIGNED

    @property
    def compiled_step(self) -> CompiledStep:
        """The step ``running_queued`` of the compiled loop."""
        constants = {"queued_offset": self.queued_offset, "largest_many_assigned": self.largest_many_assigned}
        return CompiledStep("running_queued", constants)

    def factor(self, load: Load) -> Floats:
        """Shape of ``load.running``: above 0."""
        waiting = load.activated + load.starting
        waiting += load.defined
        waiting += self.queued_offset
        many = load.assigned + 1.0
        many /= load.activated + 1.0
        np.clip(many, 1.0, self.largest_many_assigned, out=many)
        # jobs that wait for their input count only where this chunk's input is not local
        np.copyto(many, 1.0, where=load.all_local)
        waiting += np.where(load.all_local, 0.0, load.assigned)
        factor = load.running + 1.0
        factor /= waiting
        factor /= many
        return factor

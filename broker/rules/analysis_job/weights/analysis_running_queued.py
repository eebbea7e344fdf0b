"""Queues that work through their jobs come first: the original basic weight of analysis."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import CompiledStep, Floats, Load, LoadWeight


class AnalysisRunningQueued(LoadWeight):
    """``(running + 1) / (activated + assigned + starting + defined + 1)``, jobs of the share.

    ``running`` is the largest of its readings. Source: ATLAS Analysis Job Brokerage, original basic weight.
    """

    name = "analysis_running_queued"
    code = "running_queued"
    title = "Prefers queues with many running and few waiting jobs"
    sources = ("jobs",)
    provenance = "ATLAS Analysis Job Brokerage"

    @property
    def compiled_step(self) -> CompiledStep:
        """The step ``analysis_running_queued`` of the compiled loop."""
        return CompiledStep("analysis_running_queued")

    def factor(self, load: Load) -> Floats:
        """Shape of ``load.running``: above 0."""
        waiting = load.defined + load.assigned + load.activated + load.starting
        return np.asarray((load.running + 1.0) / (waiting + 1.0))

"""Queues with many running and few waiting jobs come first."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Floats, Load, LoadWeight


class RunningWaiting(LoadWeight):
    """``(running + 1) / (activated + defined + 1) / (defined + 1)``, jobs of the VO in all shares.

    Neither batch workers nor slots substitute for running jobs. Source: PanDA JEDI, GenJobBroker.
    """

    name = "running_waiting"
    code = "running_waiting"
    title = "Prefers queues with many running and few waiting jobs of the VO"
    sources = ("jobs",)
    provenance = "PanDA JEDI, GenJobBroker"

    def factor(self, load: Load) -> Floats:
        """Shape of ``load.running``: above 0."""
        waiting = load.activated + load.defined + 1.0
        return np.asarray((load.running + 1.0) / waiting / (load.defined + 1.0))

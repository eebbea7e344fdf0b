"""Only active nuclei collect output."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.rules.contract import Bools, Filter, Observation, Options, Reason, TaskPairs, text

ACTIVE = "ACTIVE"


class StatusOptions(Options):
    """Whether the state of the site is checked; without, every nucleus counts as active."""

    state: Literal["of_site", "always_active"] = "of_site"


class Status(Filter[TaskPairs]):
    """Rejects nuclei that are not ACTIVE. Source: ATLAS Production Task Brokerage, primary list of nuclei."""

    name = "status"
    reason = Reason(
        code="status",
        title="The nucleus is active",
        violation="The nucleus is not active",
        no_candidate="is active",
        who="ask",
        cure="The site brings the nucleus back in CRIC.",
    )
    provenance = "ATLAS Production Task Brokerage"
    sources = ("queues",)
    options: StatusOptions = StatusOptions()

    def keep(self, pairs: TaskPairs) -> Bools:
        """(1, N): true where the nucleus is active."""
        active = np.asarray(pairs.nuclei.state == ACTIVE, dtype=np.bool_)
        return active if self.options.state == "of_site" else np.ones_like(active)

    def observe(self, pairs: TaskPairs) -> Observation:
        """The state of the site; no limit where it is not checked."""
        limit = ACTIVE if self.options.state == "of_site" else None
        return Observation(text(pairs.nuclei.state), "==", limit, "-", "site.state")

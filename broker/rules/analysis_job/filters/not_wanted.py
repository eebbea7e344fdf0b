"""Queues that the task excludes, or does not include or name, are rejected after the other rules."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools, Filter, Observation, Reason, flag


class NotWanted(Filter[AnalysisPairs]):
    """The user wants the queue.

    Rejects queues that the task excludes, that are not in its list of included ones, or that are not the one it names.
    Only with the step ``wishes`` set to ``asked: by_rule``; otherwise there are no such candidates. Source: PanDA
    analysis brokerage, inclusion and exclusion.
    """

    name = "not_wanted"
    reason = Reason(
        code="notincluded",
        title="The user wants the queue",
        violation="The task excludes the queue, or names others",
        no_candidate="is among those that the task names",
        who="you",
        cure="Submit without the list of sites (`prun --site`, `--excludedSite`), or with one that has the queue.",
    )
    provenance = "PanDA analysis brokerage, inclusion and exclusion"

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where the user wants the queue."""
        return np.asarray(pairs.facts.wanted)

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Whether the queue is wanted."""
        return Observation(flag(pairs.facts.wanted), "==", True, "-", "task.includedSite")

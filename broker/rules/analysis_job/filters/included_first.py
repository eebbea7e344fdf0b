"""Queues that a task includes come before those that AUTO admits."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import AnalysisPairs, Bools, GroupFilter, Observation, Reason, flag


class IncludedFirst(GroupFilter[AnalysisPairs]):
    """The task includes the queue, or none that it includes is left.

    Rejects queues that are candidates only because ``includedSite`` has the item ``AUTO``, while any queue of that list
    is left.

    Source: PanDA analysis brokerage, candidates (AUTO).
    """

    name = "included_first"
    reason = Reason(
        code="notincluded",
        title="The task includes the queue, or none that it includes is left",
        violation="The task names sites to include, the queue is not one of them, and one of them is left",
        no_candidate="is among those that the task names",
        who="you",
        cure="Nothing is wrong while a site of the list takes the jobs. Submit with a longer list of sites, or without "
        "one, to reach this queue.",
    )
    provenance = "PanDA analysis brokerage, candidates"

    def applies(self, pairs: AnalysisPairs) -> Bools:
        """Chunks of tasks with a reserve: queues that only AUTO admits."""
        return np.asarray(pairs.facts.reserve.any(axis=1, keepdims=True))

    def keep_among(self, alive: Bools, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where the task includes the queue, or none that it includes is left."""
        reserve = pairs.facts.reserve
        included = (alive & ~reserve).any(axis=1, keepdims=True)
        return np.asarray(~(reserve & included))

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Whether the queue belongs to the reserve."""
        return Observation(flag(pairs.facts.reserve), "==", False, "-", "task.includedSite")

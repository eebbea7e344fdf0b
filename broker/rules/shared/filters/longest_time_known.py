"""PanDA ends the brokerage of a task if a remaining queue states no longest walltime."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.domain.estimates import is_hs06
from broker.rules.contract import Bools, GroupFilter, JobPairs, Observation, Options, Reason, flag
from broker.rules.shared.walltime_capacity import demand


class LongestTimeKnownOptions(Options):
    """Which chunks are compared with the longest time of a queue.

    Attributes:
        asked: those whose need is known, unless they merge, scouts, and those of undefined walltime; or all others too
            that merge, or whose CPU time is in HS06 s.
    """

    asked: Literal["by_need", "hs06_and_merging_too"] = "by_need"


class LongestTimeKnown(GroupFilter[JobPairs]):
    """Keeps no queue while a remaining one has no ``maxtime`` (NULL), for chunks that are compared with it.

    A ``maxtime`` of 0 is known and means no limit. Source: PanDA production and analysis brokerage, exceptions that end
    the brokerage of a chunk.
    """

    name = "longest_time_known"
    reason = Reason(
        code="no_longest_time",
        title="every candidate says how long jobs may run",
        violation="A candidate does not say how long jobs may run, and the walltime cannot be compared",
        no_candidate="is without a candidate beside it that says nothing of its longest walltime",
        who="ask",
        cure="Operators set `maxtime` of the queue in CRIC; 0 is no limit.",
        limit="queue.maxtime",
    )
    sources = ("queues",)
    unknown_policy = "keep"
    provenance = "PanDA production brokerage, exceptions that end the brokerage of a chunk"
    options: LongestTimeKnownOptions = LongestTimeKnownOptions()

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks that are compared with the longest time of queues."""
        chunks = pairs.chunks
        needs = demand(chunks, pairs.facts) > 0
        unestimated = chunks.scout | pairs.facts.walltime_undefined
        if self.options.asked == "by_need":
            return np.asarray((needs & ~chunks.merging) | unestimated)
        return np.asarray(needs | unestimated | chunks.merging | is_hs06(chunks.cputimeunit))

    def keep_among(self, alive: Bools, pairs: JobPairs) -> Bools:
        """(T, Q): False for all candidates of a chunk with such a queue among the remaining ones."""
        lacking = (alive & np.isnan(pairs.candidates.maxtime_s)).any(axis=1, keepdims=True)
        return np.broadcast_to(~lacking, alive.shape)

    def observe(self, pairs: JobPairs) -> Observation:
        """Whether this queue states how long jobs may run."""
        return Observation(flag(~np.isnan(pairs.candidates.maxtime_s)), "==", True, "-", "queue.maxtime")

"""Virtual placement is avoided where it does not help."""

from __future__ import annotations

import numpy as np

from broker.domain.analysis import AnalysisFacts
from broker.rules.contract import (
    AnalysisPairs,
    Bools,
    Filter,
    Ints,
    Observation,
    Options,
    Reason,
    TuningView,
    Value,
    flag,
)

PROVENANCE = "ATLAS Analysis Job Brokerage"
MIN_QUEUE, RATIO_OFFSET = "OVERLOAD_MIN_QUEUE", "OVERLOAD_RATIO_OFFSET"


class AvoidVpOptions(Options):
    """Whether an overloaded queue with virtual placement is avoided, or overload is left to other rules."""

    overload: bool = True


class AvoidVp(Filter[AnalysisPairs]):
    """The queue has no virtual placement, or the chunk may use it and the queue is not overloaded.

    Rejects queues with virtual placement for chunks that avoid it, and such queues that are overloaded: more queued
    jobs of the share than OVERLOAD_MIN_QUEUE, and more for each running one than OVERLOAD_RATIO_OFFSET x the share has
    everywhere.

    Source: ATLAS Analysis Job Brokerage.
    """

    name = "avoid_vp"
    reason = Reason(
        code="avoid_vp",
        title="The queue has no virtual placement, or the chunk may use it and the queue is not overloaded",
        violation=(
            "The queue reads its input by virtual placement, which the task avoids or which is overloaded there"
        ),
        no_candidate="is free of virtual placement, or has room for it",
        who="you",
        cure="Submit without `--avoidVP`, or wait until the queue is less loaded.",
    )
    keys = (
        MIN_QUEUE,
        RATIO_OFFSET,
    )
    sources = (
        "storages",
        "jobs",
    )
    provenance = PROVENANCE
    options: AvoidVpOptions = AvoidVpOptions()

    def keep(self, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true without virtual placement, or where the chunk may use it."""
        known = pairs.facts
        # few queues have virtual placement, and the others are not judged
        virtual = known.is_vp[0].nonzero()[0]
        avoided = known.avoids_vp
        if self.options.overload and len(virtual):
            avoided = avoided | overloaded(known, pairs.tuning, virtual)
        keep = np.ones((len(avoided), known.is_vp.shape[1]), dtype=np.bool_)
        keep[:, virtual] = ~avoided
        return keep

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """Whether the queue is one to avoid."""
        known = pairs.facts
        bad = not flag(self.keep(pairs))
        inputs: dict[str, Value] = {
            "virtual_placement": flag(known.is_vp),
            "avoided": flag(known.avoids_vp),
            "overloaded": flag(overloaded(pairs.facts, pairs.tuning)),
        }
        return Observation(bad, "==", False, "-", MIN_QUEUE, inputs)


def overloaded(facts: AnalysisFacts, tuning: TuningView, queues: Ints | None = None) -> Bools:
    """(T, Q): the queue has many more queued jobs for each running one than the share has everywhere.

    Args:
        facts: of the chunks.
        tuning: with the offset of the ratio and the shortest queue.
        queues: positions of the queues to judge; None for all.
    """
    counts = [facts.by_kind(name) for name in ("defined", "assigned", "activated", "starting", "running")]
    every = counts if queues is None else [one.at_columns(queues) for one in counts]
    defined, assigned, activated, starting, running = (one.every for one in every)
    queued = defined + assigned + activated + starting
    # a product, so that nothing is divided by 0 jobs; a share without running jobs has no ratio to exceed
    allowed = facts.share_queued * tuning.number(RATIO_OFFSET) * running
    above = (queued * facts.share_running > allowed) & (facts.share_running > 0)
    return np.asarray((queued > tuning.number(MIN_QUEUE)) & ((running == 0) | above))

"""The queue must have had pilots."""

from __future__ import annotations

import numpy as np

from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, flag, number

TEST_LABEL = "test"


class QueuePilots(Filter[JobPairs]):
    """Rejects queues without pilots in the last 3 hours, unless they have ``allow_no_pilot``; not for label ``test``.

    Only pilots of the queue itself count: a pseudo-queue has none. Source: PanDA JEDI, GenJobBroker.
    """

    name = "queue_pilots"
    reason = Reason(
        code="nopilot",
        title="Pilots were seen at the queue in the last 3 hours",
        violation="No pilot was seen at the queue in the last 3 hours",
        no_candidate="has seen pilots recently",
        who="ask",
        cure="The site looks at its pilot factory and its batch system; a queue that needs no pilots gets "
        "`allow_no_pilot` in its `catchall`.",
    )
    kind = "temporary"
    sources = ("pilots",)
    provenance = "PanDA JEDI, GenJobBroker"

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of all labels except ``test``."""
        return np.asarray(pairs.chunks.prodsourcelabel != TEST_LABEL, dtype=np.bool_)

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): True where the candidate passes."""
        return np.asarray(_has_pilots(pairs) | pairs.candidates.allow_no_pilot)

    def observe(self, pairs: JobPairs) -> Observation:
        """Pilots of the queue; no limit if it needs none."""
        seen = number(np.where(_is_own(pairs), pairs.facts.n_pilots, 0.0))
        limit = None if flag(pairs.candidates.allow_no_pilot) else 0.0
        return Observation(seen, ">", limit, "pilots", "rule", {"pseudo_queue": not flag(_is_own(pairs))})


def _is_own(pairs: JobPairs) -> Bools:
    return np.asarray(pairs.candidates.name == pairs.candidates.unified_name, dtype=np.bool_)


def _has_pilots(pairs: JobPairs) -> Bools:
    return np.asarray((pairs.facts.n_pilots > 0) & _is_own(pairs))

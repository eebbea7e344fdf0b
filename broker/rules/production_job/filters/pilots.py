"""The queue must have had pilots."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from broker.domain.arrays import holds_of_texts
from broker.domain.facts import not_preassigned
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Persistence, Reason, flag, number


class Pilots(Filter[JobPairs]):
    """Rejects queues without pilots in the last 3 hours.

    Not for queues that publish slots for the share and resource type, jumbo chunks on queues for jumbo jobs, and
    tasks with "test" in their label unless they are urgent. Not for pre-assigned queues. Source: ATLAS Production Job
    Brokerage, queues without pilots.
    """

    name = "pilots"
    reason = Reason(
        code="nopilot",
        title="Pilots were seen at the queue in the last 3 hours",
        violation="No pilot was seen at the queue in the last 3 hours",
        no_candidate="has seen pilots recently",
        who="ask",
        cure="The site looks at its pilot factory and its batch system.",
    )
    kind: ClassVar[Persistence] = "temporary"
    sources = ("pilots",)

    def applies(self, pairs: JobPairs) -> Bools:
        """Urgent chunks, and chunks that are not tests."""
        is_test = holds_of_texts(pairs.chunks.prodsourcelabel, lambda label: "test" in label)
        return np.asarray((~is_test | pairs.facts.urgent) & not_preassigned(pairs.facts))

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q): true where pilots were seen at the queue in the last 3 hours."""
        return np.asarray(
            (pairs.facts.n_pilots > 0) | pairs.facts.has_slots | (pairs.chunks.jumbo & pairs.candidates.use_jumbo)
        )

    def observe(self, pairs: JobPairs) -> Observation:
        """The pilots seen; no limit if none are needed."""
        slots, jumbo = flag(pairs.facts.has_slots), flag(pairs.chunks.jumbo & pairs.candidates.use_jumbo)
        limit = None if slots or jumbo else 0.0
        return Observation(
            number(pairs.facts.n_pilots), ">", limit, "pilots", "rule", {"has_slots": slots, "jumbo": jumbo}
        )

"""Urgent chunks avoid queues that do not start jobs."""

from __future__ import annotations

import numpy as np

from broker.domain.facts import not_preassigned
from broker.domain.work import is_selective
from broker.rules.contract import Bools, Filter, Floats, JobPairs, Observation, Options, Reason, Value, number

LONGEST_PAUSE_S = 2 * 3600.0


class InactiveOptions(Options):
    """Whether starting jobs wait too, in addition to activated ones."""

    starting_wait: bool = False


class Inactive(Filter[JobPairs]):
    """Rejects queues that started no job in the last 2 hours although jobs of any share are activated there.

    For priority of 800 and more, scouts, merging, and tasks that merge their output. A queue whose last start is
    unknown is not inactive. Not for pre-assigned queues. Source: ATLAS Production Job Brokerage, inactive queues.
    """

    name = "inactive"
    reason = Reason(
        code="inactive",
        title="The queue started jobs in the last 2 hours, for high priority, scouts and merging",
        violation="No job started at the queue in the last 2 hours, although some wait",
        no_candidate="has started jobs recently",
        who="ask",
        cure="The site looks at its pilots. The queue is used again when the first job has started there.",
    )
    kind = "temporary"
    sources = ("pilots", "jobs")
    unknown_policy = "keep"
    options: InactiveOptions = InactiveOptions()

    def applies(self, pairs: JobPairs) -> Bools:
        """Chunks of high priority, scouts, merging and tasks that merge."""
        return np.asarray(
            (is_selective(pairs.chunks) | pairs.chunks.merging | pairs.chunks.merge_output)
            & not_preassigned(pairs.facts)
        )

    def keep(self, pairs: JobPairs) -> Bools:
        """(1, Q): true where the queue started jobs in the last 2 hours, for high priority, scouts and merging."""
        return np.asarray(
            ~((pairs.facts.laststart_s < pairs.facts.now_s - LONGEST_PAUSE_S) & (self._waiting(pairs) > 0))
        )

    def observe(self, pairs: JobPairs) -> Observation:
        """Seconds since the last start while jobs wait; 0 if none waits or no start is known."""
        start, waiting = number(pairs.facts.laststart_s), number(self._waiting(pairs))
        pause = pairs.facts.now_s - start if start is not None and waiting else 0.0
        inputs: dict[str, Value] = {"laststart_s": start, "activated": waiting}
        return Observation(pause, "<=", LONGEST_PAUSE_S, "s", "rule", inputs)

    def _waiting(self, pairs: JobPairs) -> Floats:
        """(1, Q): jobs of all shares that wait to be started."""
        facts = pairs.facts
        return facts.all_activated + facts.all_starting if self.options.starting_wait else facts.all_activated

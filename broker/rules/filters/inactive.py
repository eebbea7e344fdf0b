"""Urgent chunks keep away from queues that do not start jobs."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation, Value
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.observing import number
from broker.rules.preassigned import not_preassigned
from broker.rules.urgency import is_selective

LONGEST_PAUSE_S = 2 * 3600.0


class Inactive(Filter):
    """Rejects queues that started no job in the last 2 hours although jobs of any share are activated there.

    For priority of 800 and more, scouts, merging, and tasks that merge their output. A queue whose last start is not
    known is not called inactive. Not for pre-assigned queues. Source: ATLAS Production Job Brokerage, inactive
    queues.
    """

    name = "inactive"
    code = "inactive"
    title = "The queue started jobs in the last 2 hours, for high priority, scouts and merging"
    kind = "temporary"
    sources = ("pilots", "jobs")
    unknown_policy = "keep"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks of high priority, scouts, merging and tasks that merge."""
        return np.asarray((is_selective(tasks) | tasks.merging | tasks.merge_output) & not_preassigned(facts))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(1, Q)."""
        return np.asarray(~((facts.laststart_s < facts.now_s - LONGEST_PAUSE_S) & (facts.all_activated > 0)))

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Seconds since the last start while jobs wait; 0 where none waits or no start is known."""
        start, waiting = number(facts.laststart_s), number(facts.all_activated)
        pause = facts.now_s - start if start is not None and waiting else 0.0
        inputs: dict[str, Value] = {"laststart_s": start, "activated": waiting}
        return Observation(pause, "<=", LONGEST_PAUSE_S, "s", "rule", inputs)

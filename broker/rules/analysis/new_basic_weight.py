"""The new basic weight of analysis, by classes and by the room that the user has left."""

from __future__ import annotations

from broker.domain.arrays import Floats
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.analysis.facts import of_analysis
from broker.rules.contract import TuningView, Weight


class NewBasicWeight(Weight):
    """W_s by the classes of task and queue, times W_q by the user's room in the queues of all candidates.

    Takes the place of the original basic weight when NEW_BASIC_WEIGHT is on. Source: ATLAS Analysis Job Brokerage, new
    basic weight.
    """

    name = "new_basic_weight"
    code = "new_basic_weight"
    title = "Prefers queues that suit the class of the task and where the user has room"
    provenance = "ATLAS Analysis Job Brokerage"

    def factor(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Floats:
        """(T, Q): 1 where the original weight is used."""
        return of_analysis(facts).new_weight

"""The new basic weight of analysis, by classes and by the room that the user has left."""

from __future__ import annotations

from broker.rules.contract import AnalysisPairs, Floats, Weight


class NewBasicWeight(Weight[AnalysisPairs]):
    """W_s by the classes of task and queue, times W_q by the user's room in the queues of all candidates.

    It replaces the original basic weight if NEW_BASIC_WEIGHT is on. Source: ATLAS Analysis Job Brokerage, new basic
    weight.
    """

    name = "new_basic_weight"
    code = "new_basic_weight"
    title = "Prefers queues that suit the class of the task and where the user has room"
    provenance = "ATLAS Analysis Job Brokerage"
    moving = True

    def factor(self, pairs: AnalysisPairs) -> Floats:
        """(T, Q): 1 where the original weight is used."""
        return pairs.facts.new_weight

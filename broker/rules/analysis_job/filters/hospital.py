"""Hospital queues take only work that has no other queue."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import IdentityCache
from broker.rules.contract import AnalysisPairs, Bools, GroupFilter, Observation, Reason, Texts, text

PROVENANCE = "ATLAS Analysis Job Brokerage"
ENDING = "_HOSPITAL"
_sick = IdentityCache[Bools]()


class Hospital(GroupFilter[AnalysisPairs]):
    """The queue is no hospital queue, or there is no other.

    Rejects queues whose name ends with _HOSPITAL while any other is left.

    Source: PanDA analysis brokerage, filters.
    """

    name = "hospital"
    reason = Reason(
        code="hospital",
        title="The queue is no hospital queue, or there is no other",
        violation="The queue is a hospital queue, and others are left",
        no_candidate="is an ordinary queue",
        who="wait",
        cure="Nothing is wrong: the other queues come first.",
    )
    provenance = PROVENANCE

    def keep_among(self, alive: Bools, pairs: AnalysisPairs) -> Bools:
        """(T, Q): true where the queue is no hospital queue, or there is no other."""
        names = pairs.candidates.unified_name
        sick = _sick.of((names,), lambda: _hospitals(names))
        if not sick.any():
            return np.asarray(~sick)
        others = (alive & ~sick).any(axis=1, keepdims=True)
        return np.asarray(~(sick & others))

    def observe(self, pairs: AnalysisPairs) -> Observation:
        """The name of the unified queue; its ending marks a hospital queue."""
        return Observation(text(pairs.candidates.unified_name), "not in", "hospital queues", "-", "rule")


def _hospitals(names: Texts) -> Bools:
    """(1, Q): true where the name marks a hospital queue."""
    return np.array([[str(name).endswith(ENDING) for name in names.ravel().tolist()]], dtype=np.bool_)

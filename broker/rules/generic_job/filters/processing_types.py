"""A queue may be for some processing types only."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import holds_of_texts
from broker.rules.contract import Bools, Filter, JobPairs, Observation, Reason, text


class ProcessingTypes(Filter[JobPairs]):
    """Rejects queues that do not allow the processing type of the task, or exclude it.

    ``allowed_processing`` and ``excluded_processing`` of the queue, in ``params`` or ``catchall``, are names separated
    by bars. Source: PanDA JEDI, GenJobBroker.
    """

    name = "processing_types"
    reason = Reason(
        code="processing_type",
        title="The queue takes the processing type of the task",
        violation="The queue does not take the processing type of the task",
        no_candidate="takes the processing type of the task",
        who="ask",
        cure="Operators change `allowed_processing` or `excluded_processing` of the queue; or the task is submitted "
        "with another processing type.",
    )
    sources = ("queues",)
    provenance = "PanDA JEDI, GenJobBroker"

    def keep(self, pairs: JobPairs) -> Bools:
        """(T, Q), or (1, Q) if no queue has such a list: true where the queue takes the processing type."""
        allowed, excluded = pairs.candidates.allowed_processing, pairs.candidates.excluded_processing
        mask: Bools = np.ones((1, allowed.shape[1]), dtype=np.bool_)
        for lists, wanted in ((allowed, True), (excluded, False)):
            for names in {one for one in lists.ravel().tolist() if one}:
                listed = _listed(pairs, names)
                mask = mask & ((lists != names) | (listed == wanted))
        return np.asarray(mask, dtype=np.bool_)

    def observe(self, pairs: JobPairs) -> Observation:
        """The processing type, and the list that decides."""
        kind = text(pairs.chunks.processingtype)
        allowed, excluded = text(pairs.candidates.allowed_processing), text(pairs.candidates.excluded_processing)
        if allowed and (not excluded or not bool(_listed(pairs, allowed).item())):
            return Observation(kind, "in", ", ".join(allowed.split("|")), "-", "queue.allowed_processing")
        names = ", ".join(excluded.split("|")) if excluded else None
        return Observation(kind, "not in", names, "-", "queue.excluded_processing")


def _listed(pairs: JobPairs, names: str) -> Bools:
    """(T, 1): the processing type is one of the names separated by bars; NULL is none of them."""
    known = set(names.split("|"))
    return holds_of_texts(pairs.chunks.processingtype, lambda kind: kind in known)

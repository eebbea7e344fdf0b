"""Limits of the tuning that a chunk meets while the cycle places jobs."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.work import WorkTable
from broker.engine.job.urgency import Urgency
from broker.gdpconfig import Tuning


def chunk_limits(chunks: WorkTable, tuning: Tuning, urgency: Urgency) -> tuple[Floats, Floats, Bools]:
    """(T,) each: NQUEUELIMITSITE, MIN_WEIGHT, and whether candidates without any jobs may start."""
    shares, labels = list(chunks.gshare), list(chunks.prodsourcelabel)
    urgent = urgency.urgent(chunks.processingtype, chunks.currentpriority)
    may_bootstrap = (chunks.currentpriority <= tuning.number("MAX_PRIO_TO_BOOTSTRAP")) & ~chunks.merging & ~urgent
    return (
        tuning.by_suffix("NQUEUELIMITSITE", shares),
        tuning.by_two_suffixes("MIN_WEIGHT", labels, shares),
        np.asarray(may_bootstrap, dtype=np.bool_),
    )

"""The gdpconfig keys that a job brokerage reads beside its rules, and the limits of a chunk that they set."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.feature_table import TIGHTENING_KEYS
from broker.domain.work import WorkTable
from broker.engine.job.urgency import Urgency
from broker.gdpconfig import Tuning

#: The gdpconfig keys that the steps which are no rules read.
STEP_KEYS = (
    "MAX_MISSING_INPUT_FILES",
    "MIN_INPUT_COMPLETENESS",
    "IO_INTENSITY_CUTOFF",
    "MAX_PRIO_TO_BOOTSTRAP",
    "NQUEUELIMITSITE",
    "MIN_WEIGHT",
    *TIGHTENING_KEYS,
)
#: Those of them that are limits of what moves within a cycle, and no part of any fact.
LIMIT_KEYS = frozenset(("NQUEUELIMITSITE", "MIN_WEIGHT"))


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

"""The gdpconfig keys that a job brokerage reads beside its rules."""

from __future__ import annotations

from broker.domain.feature_table import TIGHTENING_KEYS

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

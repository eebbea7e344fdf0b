"""Which chunks were given their queues beforehand: some rules do not question such a choice."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.facts import JobFacts


def not_preassigned(facts: JobFacts) -> Bools:
    """(T, 1): neither a single queue nor a list of queues was given."""
    return np.asarray(~(facts.one_preassigned | facts.listed))


def not_single(facts: JobFacts) -> Bools:
    """(T, 1): not exactly one queue was given; a list is questioned."""
    return np.asarray(~facts.one_preassigned)

"""The storage of a queue, checked in a fixed order so that one reason is shown: the first that fails.

All these rejections are temporary, and the last temporary one is shown; so each check looks away where an earlier one
fails. Source: ATLAS Production Job Brokerage, DISK size check and storage endpoints; any DATADISK endpoint that works
is enough.
"""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.facts import JobFacts
from broker.rules.contract import TuningView

MIN_FREE_GB = "STORAGE_MIN_FREE_SIZE"


def has_free_space(facts: JobFacts, tuning: TuningView) -> Bools:
    """(1, Q): free space in GB is larger than the limit; without an endpoint on record it is not tested."""
    return np.asarray(~(facts.space_free_gb <= tuning.number(MIN_FREE_GB)))


def works_over_lan(facts: JobFacts, tuning: TuningView) -> Bools:
    """(1, Q): free space, and jobs can read and write."""
    return np.asarray(has_free_space(facts, tuning) & facts.can_read & facts.can_write)

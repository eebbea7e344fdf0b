"""Which moving weights of nuclei the compiled loop of tasks knows, and the loop's numbers of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import Ints
from broker.rules.contract import NucleusLoadWeight

REMAINING_WORK, REMAINING_WORK_FROM_LEAST = 1, 2
STEPS = {"remaining_work": REMAINING_WORK, "remaining_work_from_least": REMAINING_WORK_FROM_LEAST}


def nucleus_steps(rules: Sequence[NucleusLoadWeight]) -> Ints | None:
    """(M,) the rules by number, in order; None if the loop does not know one of them.

    A class that is derived from a known rule is another rule, unless it says itself which step equals it.
    """
    steps = [STEPS.get(rule.compiled_step if "compiled_step" in vars(type(rule)) else "") for rule in rules]
    return None if None in steps else np.array(steps, dtype=np.int64)

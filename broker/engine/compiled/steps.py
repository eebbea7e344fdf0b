"""Which moving rules the compiled loop knows, and the loop's numbers of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.engine.compiled.columns import Moving
from broker.engine.shared.chain import QueueChain
from broker.engine.shared.rank import BEST
from broker.rules.contract import LoadCut, LoadWeight

RUNNING_QUEUED = 1
CAP, CAP_WITHOUT_DEFINED, BELOW_MIN_WEIGHT = 1, 2, 3
WEIGHT_STEPS = {"running_queued": RUNNING_QUEUED}
CUT_STEPS = {"cap": CAP, "cap_without_defined": CAP_WITHOUT_DEFINED, "below_min_weight": BELOW_MIN_WEIGHT}


def moving_steps(chain: QueueChain) -> Moving | None:
    """The moving rules of a chain by number; None if the loop does not know one of them.

    A class that is derived from a known rule is another rule, unless it says itself which step equals it.
    """
    weights = [WEIGHT_STEPS.get(_step(rule)) for rule in chain.load_weights]
    cuts = [CUT_STEPS.get(_step(rule)) for rule in chain.cuts]
    if None in weights or None in cuts or chain.steps.placement.together:
        return None
    room = next((step for step in cuts if step in (CAP, CAP_WITHOUT_DEFINED)), CAP)
    return Moving(_column(weights), _column(cuts), room or CAP, 2 * len(chain.filters), BEST)


def _step(rule: LoadWeight | LoadCut) -> str:
    return rule.compiled_step if "compiled_step" in vars(type(rule)) else ""


def _column(steps: Sequence[int | None]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(steps, dtype=np.int64)

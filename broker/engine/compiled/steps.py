"""Which moving rules the compiled loop knows, and the loop's numbers of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import Ints
from broker.engine.compiled.columns import Moving
from broker.engine.shared.chain import QueueChain
from broker.engine.shared.evaluate import AnyFilter
from broker.rules.contract import LoadCut, LoadWeight

RUNNING_QUEUED, ANALYSIS_RUNNING_QUEUED = 1, 2
#: Index of the factor that moves with the user's room, where none does.
NO_NEW_WEIGHT = -1
QUEUE_CAP, USER_QUEUE_LENGTH = 1, 2
CAP, CAP_WITHOUT_DEFINED, BELOW_MIN_WEIGHT = 1, 2, 3
WEIGHT_STEPS = {"running_queued": RUNNING_QUEUED, "analysis_running_queued": ANALYSIS_RUNNING_QUEUED}
FILTER_STEPS = {"queue_cap": QUEUE_CAP, "user_queue_length": USER_QUEUE_LENGTH}
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
    none = _column(())
    return Moving(
        _column(weights), _column(cuts), room or CAP, 2 * len(chain.filters), none, none, np.zeros(0), NO_NEW_WEIGHT
    )


def filter_steps(filters: Sequence[AnyFilter]) -> Ints | None:
    """(M,) filters that judge again what was placed, by number; None if the loop does not know one of them."""
    steps = [FILTER_STEPS.get(_step(rule)) for rule in filters]
    return None if None in steps else _column(steps)


def _step(rule: LoadWeight | LoadCut | AnyFilter) -> str:
    return str(getattr(rule, "compiled_step", "")) if "compiled_step" in vars(type(rule)) else ""


def _column(steps: Sequence[int | None]) -> Ints:
    return np.array(steps, dtype=np.int64)

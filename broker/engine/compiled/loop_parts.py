"""Input of the compiled loop from a cycle, outside its blocks: moving rules, and a brokerage's own state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.engine.compiled.columns import FlatBlock, Moving, MovingState, Outcome, UserPairs, UserState
from broker.engine.compiled.steps import moving_steps
from broker.engine.job.chunk_result import Block
from broker.engine.job.cycle import JobCycle
from broker.rules.contract import LoadCut

_NONE, _NO_PAIRS, _NO_TABLE = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_), np.zeros((0, 0))


@dataclass(frozen=True)
class LoopParts:
    """A production cycle, in which nothing moves for users.

    Attributes:
        moving: the moving rules by number.
        state: what the cycle has placed, where it counts.
        users: the same by user and type; empty arrays.
    """

    moving: Moving
    state: MovingState
    users: UserState

    def user_pairs(self, block: Block, flat: FlatBlock) -> UserPairs:
        """Per-pair input for users: empty arrays."""
        return no_user_pairs()

    def figures(
        self, block: Block, flat: FlatBlock, out: Outcome, rows: range
    ) -> list[tuple[Ints, Floats] | None] | None:
        """For each of the chunks ``rows`` of the block the figures that are kept; None where there are none at all."""
        return None


def loop_parts(cycle: JobCycle, other_cap: LoadCut) -> LoopParts | None:
    """The parts of a production cycle; None where the loop does not run it. ``other_cap`` as in ``moving_steps``."""
    state, moving = cycle.moving_state, moving_steps(cycle.chain, cycle.tuning, other_cap)
    return None if state is None or moving is None else LoopParts(moving, state, no_users())


def no_user_pairs() -> UserPairs:
    """A :class:`UserPairs` of empty arrays."""
    return UserPairs(np.zeros((7, 0)), _NO_PAIRS, np.zeros(0), _NO_PAIRS, np.zeros(0))


def no_users() -> UserState:
    """A :class:`UserState` of empty arrays."""
    return UserState(
        owner=_NONE,
        share=_NONE,
        kind=_NONE,
        person=_NONE,
        merging=_NO_PAIRS,
        queue_kind=_NONE,
        of_user=_NO_TABLE,
        of_type=np.zeros((0, 0, 0)),
        new_users=_NO_TABLE,
        present=np.zeros((0, 0), dtype=np.bool_),
    )

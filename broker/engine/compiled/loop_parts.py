"""Input and output arrays of the compiled loop, built from a cycle: moving rules, state of a brokerage, flat blocks.

- :class:`LoopParts`: the rules of a chain by number, and the state of the brokerage outside its blocks.
- :func:`flat_block`: the pairs of an evaluated block that filters left, in flat form.
- :func:`room_for`: empty arrays for the outcome of a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from broker.domain.arrays import Floats, Ints
from broker.engine.compiled.columns import FlatBlock, MovingRules, MovingState, Outcome, UserPairs, UserState
from broker.engine.compiled.loop_steps import MOST_ARGUMENTS, STEPS, arguments_of, step_of
from broker.engine.job.chunk_result import Block
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.chain import QueueChain
from broker.engine.shared.pair_state import SurvivingPairs
from broker.gdpconfig import Tuning
from broker.rules.contract import LoadCut, Rule

#: Index of the factor that moves with the user's room, if there is none.
NO_NEW_WEIGHT = -1


def moving_steps(chain: QueueChain, tuning: Tuning, cap: LoadCut) -> MovingRules | None:
    """The moving rules of a chain by number; None if the loop does not know one of them.

    Args:
        chain: of the cycle.
        tuning: of the cycle.
        cap: the cut that decides the room of a candidate, of the chain or not.
    """
    tunings = chain.tunings(tuning)
    weights, cuts = numbered(chain.load_weights, tunings), numbered(chain.cuts, tunings)
    caps = numbered((cap,), {cap.name: tuning})
    if weights is None or cuts is None or caps is None or chain.steps.placement.together:
        return None
    return MovingRules(
        weights=weights[0],
        weight_arguments=weights[1],
        cuts=cuts[0],
        cut_arguments=cuts[1],
        room=int(caps[0][0]),
        room_arguments=caps[1][0],
        behind=2 * len(chain.filters),
        filters=np.zeros(0, dtype=np.int64),
        filter_arguments=np.zeros((0, MOST_ARGUMENTS)),
        reasons=np.zeros(0, dtype=np.int64),
        stabilizer=np.zeros(0),
        new_weight=NO_NEW_WEIGHT,
        new_weight_arguments=np.zeros(0),
    )


def numbered(rules: Sequence[Rule], tunings: Mapping[str, Tuning]) -> tuple[Ints, Floats] | None:
    """Rules of one kind by number (M,), with their arguments (M, MOST_ARGUMENTS); None if the loop lacks one of them.

    Args:
        rules: in order.
        tunings: by the name of the rule.
    """
    steps = [step_of(rule) for rule in rules]
    known = [step for step in steps if step is not None]
    if len(known) < len(steps):
        return None
    arguments = [arguments_of(step, tunings[rule.name]) for rule, step in zip(rules, known, strict=True)]
    numbers = np.array([STEPS[step.name].number for step in known], dtype=np.int64)
    return numbers, np.array(arguments, dtype=np.float64).reshape(len(known), MOST_ARGUMENTS)


_NONE, _NO_PAIRS, _NO_TABLE = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_), np.zeros((0, 0))


@dataclass(frozen=True)
class LoopParts:
    """A production cycle, in which nothing moves for users.

    Attributes:
        moving: the moving rules by number.
        state: the jobs that the cycle has placed, where they count.
        users: the same by user and type; empty arrays.
    """

    moving: MovingRules
    state: MovingState
    users: UserState

    def user_pairs(self, block: Block, flat: FlatBlock) -> UserPairs:
        """Per-pair input for users: empty arrays."""
        return no_user_pairs()

    def figures(
        self, block: Block, flat: FlatBlock, out: Outcome, rows: range
    ) -> list[tuple[Ints, Floats] | None] | None:
        """The figures stored for each of the chunks ``rows`` of the block; None where there are none at all."""
        return None


def loop_parts(cycle: JobCycle, cap: LoadCut) -> LoopParts | None:
    """The parts of a production cycle; None where the loop does not run it. ``cap`` as in ``moving_steps``."""
    state, moving = cycle.moving_state, moving_steps(cycle.chain, cycle.tuning, cap)
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


def flat_block(cycle: JobCycle, block: Block, state: MovingState) -> FlatBlock:
    """The remaining pairs of a block, without those of blocked chunks."""
    facts, rows = block.facts, block.rows
    feasible = block.evaluation.feasible
    closed = [at for at in range(len(feasible)) if cycle.blocked(rows.start + at)]
    if closed:
        feasible = feasible.copy()
        feasible[closed] = False
    left = SurvivingPairs.of_mask(feasible)
    load = np.empty((5, len(left)))
    load[0] = left.of(facts.by_kind("running_equivalent"))
    # other statuses are not needed
    load[1:] = left.of(block.counts.of_table(block.counts.table[:4]))
    fixed = factors = np.empty((len(block.factors), len(left)))
    for at, factor in enumerate(block.factors):
        factors[at] = left.of(factor)
    if block.factors_first:
        fixed = reduce(np.multiply, factors, np.ones(len(left)))[None, :]
    return FlatBlock(
        row=rows.start,
        offset=np.searchsorted(left.chunk, np.arange(len(feasible) + 1)),
        queue=left.candidate,
        load=load,
        all_local=left.of(facts.by_kind("all_local")),
        fixed=fixed,
        factors=factors,
        urgent=np.array(facts.urgent[:, 0], dtype=np.bool_),
        best=cycle.best_of(rows),
        left=np.ones(len(left), dtype=np.bool_),
        position=np.array(block.evaluation.reason, dtype=np.int16, order="C"),
        placed=state.placed,
        moved=state.moved,
    )


def room_for(block: FlatBlock, factors: int, jobs: int, spans: int, users: UserState) -> Outcome:
    """Arrays for the outcome of a block, with ``factors`` factors in all and at most so many ``jobs`` and ``spans``."""
    chunks, best = len(block.urgent), int(block.best.max(initial=1))
    return Outcome(
        ranked=np.zeros(chunks, dtype=np.bool_),
        chosen=np.zeros(chunks, dtype=np.int64),
        place=np.zeros((chunks, best), dtype=np.int64),
        pair=np.zeros((chunks, best), dtype=np.int64),
        weight=np.zeros((chunks, best)),
        factors=np.zeros((chunks, factors, best)),
        bootstrap=np.zeros((chunks, best), dtype=np.bool_),
        before=np.empty((chunks, block.placed.shape[1])),
        users_before=np.empty((3, chunks if len(users.of_user) else 0, block.placed.shape[1])),
        jobs=np.zeros((chunks, 2), dtype=np.int64),
        numbers=np.empty((7, jobs), dtype=np.int64),
        figures=np.empty((2, jobs)),
        span_of=np.zeros((chunks, 2), dtype=np.int64),
        spans=np.empty((spans, 2), dtype=np.int64),
    )

"""Input of the compiled loop for analysis only: filters, weight and counts for users."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np

from broker.domain.analysis import KEYS, AnalysisFacts
from broker.domain.arrays import Floats, Ints
from broker.engine.analysis.chain import moving_at, stabilizer_at
from broker.engine.analysis.class_weights import LEAST, LEAST_PART, class_weight
from broker.engine.analysis.cycle import AnalysisCycle
from broker.engine.analysis.job_counts import figures_at, load_at
from broker.engine.compiled.columns import FlatBlock, MovingRules, Outcome, UserPairs
from broker.engine.compiled.loop_parts import NO_NEW_WEIGHT, LoopParts, moving_steps, numbered
from broker.engine.job.chunk_result import Block
from broker.rules.contract import LoadCut

#: The facts that are the load of a pair, in the order of ``UserPairs.load``.
_LOAD = (
    "user_queued", "user_running", "users", "users_running", "to_running_rate", "queued_of_type", "running_of_type"
)  # fmt: skip


@dataclass(frozen=True)
class AnalysisLoopParts(LoopParts):
    """The loop parts of an analysis cycle.

    Attributes:
        cycle: the cycle that judges the chunks.
    """

    cycle: AnalysisCycle

    def user_pairs(self, block: Block, flat: FlatBlock) -> UserPairs:
        """Figures of the pairs of a block that the filters and the weight for users read."""
        facts, rows, cycle = cast(AnalysisFacts, block.facts), block.rows, self.cycle
        chunk, queue = np.repeat(np.arange(len(flat.urgent)), np.diff(flat.offset)), flat.queue
        jobs = cycle.analysis_request.jobs_estimate[rows]
        weight = np.zeros(0)
        if self.moving.new_weight != NO_NEW_WEIGHT:
            task_class, classed, queue_class = cycle.classes_of(rows)
            weight = class_weight(jobs[chunk], task_class[chunk], queue_class[queue], classed[chunk])
        return UserPairs(
            load=np.array([facts.at(name, chunk, queue) for name in _LOAD], dtype=np.float64),
            ignored=np.array(facts.at("user_ignored", chunk, queue), dtype=np.bool_),
            class_weight=weight,
            site_named=np.array(facts.site_named[:, 0], dtype=np.bool_),
            jobs=np.array(jobs, dtype=np.float64),
        )

    def figures(
        self, block: Block, flat: FlatBlock, out: Outcome, rows: range
    ) -> list[tuple[Ints, Floats] | None] | None:
        """:meth:`AnalysisCycle.figures_of` for each of the chunks ``rows`` of the block."""
        cycle, first, stop = self.cycle, rows.start, rows.stop
        own, place = (np.arange(out.place.shape[1]) < out.chosen[first:stop, None]).nonzero()
        stabilizer = stabilizer_at(cycle.chain.filters)
        deciding = flat.position[first:stop] if stabilizer is not None else flat.position[:0]
        rejected, at = (deciding == (stabilizer or 0)).nonzero()
        chunk = np.concatenate([own, rejected])
        queue = np.concatenate([out.place[first:stop][own, place], at])
        # for each chunk, chosen queues come before rejected ones
        order = np.argsort(chunk, kind="stable")
        chunk, queue = chunk[order], queue[order]
        unified = cycle.snapshot.queues.unified[queue]
        before = out.before[first:stop], out.users_before[0, first:stop], out.users_before[2, first:stop]
        placed = before[0][chunk, unified], before[1][chunk, unified], before[2][chunk, unified]
        load = load_at(cast(AnalysisFacts, block.facts), chunk + first, queue, placed)
        table = figures_at(load, cycle.own_tuning.number)
        ends = np.searchsorted(chunk, np.arange(len(rows) + 1)).tolist()
        throttled = [cycle.throttle(block.rows.start + row) is not None for row in rows]
        return [
            None if closed else (queue[low:high], table[:, low:high])
            for closed, (low, high) in zip(throttled, pairwise(ends), strict=True)
        ]


def analysis_loop_parts(cycle: AnalysisCycle, cap: LoadCut) -> AnalysisLoopParts | None:
    """The parts of a cycle of analysis; None where the loop does not run it. ``cap`` as in ``moving_steps``."""
    state, users, moving = cycle.moving_state, cycle.user_state, _moving(cycle, cap)
    return None if state is None or moving is None else AnalysisLoopParts(moving, state, users, cycle)


def _moving(cycle: AnalysisCycle, cap: LoadCut) -> MovingRules | None:
    """The moving rules by number; None if the loop does not know one of them, or how the profile reads a step."""
    moving, chain = moving_steps(cycle.chain, cycle.tuning, cap), cycle.chain
    if moving is None or not cycle.weighs_by_table:
        return None
    again = [at for at in moving_at(chain.filters) if cycle.can_judge(chain.filters[at])]
    filters = numbered([chain.filters[at] for at in again], chain.tunings(cycle.tuning))
    if filters is None:
        return None
    return moving._replace(
        filters=filters[0],
        filter_arguments=filters[1],
        reasons=np.array(again, dtype=np.int64),
        stabilizer=np.array([cycle.own_tuning.number(key) for key in KEYS], dtype=np.float64),
        new_weight=cycle.new_weight_at,
        new_weight_arguments=np.array([LEAST_PART, LEAST]),
    )

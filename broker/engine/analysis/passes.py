"""The passes of the analysis brokerage: which chunks have a second one, and the outcome of both.

Source: PanDA analysis brokerage, locality passes and job cloning.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from broker.domain.arrays import Bools, Ints
from broker.domain.work import WorkTable
from broker.engine.analysis.chain import AnalysisChain
from broker.engine.shared.evaluate import AnyFilter
from broker.engine.shared.filter_cache import Evaluation
from broker.engine.shared.pair_state import FEASIBLE, NOT_A_CANDIDATE
from broker.gdpconfig import Tuning

#: Judges the chunks of a second pass by these filters; their candidates are those of the mask, or all without one.
Judging = Callable[[tuple[AnyFilter, ...], Bools | None], Evaluation]


#: Source: ATLAS Analysis Job Brokerage, input data locality.
PRIORITY_WITHOUT_CHECK = 2000.0
CUTOFF, TIMEOUT = "IO_INTENSITY_CUTOFF_USER", "DATA_CHECK_TIMEOUT_USER"


def suppresses_check(chunks: WorkTable, now_s: float, tuning: Tuning) -> Bools:
    """(T,): the input need not be local, if it has a source that is read over WAN."""
    cutoff, timeout_h = tuning.number(CUTOFF), tuning.number(TIMEOUT)
    quiet = (cutoff > 0) & (chunks.iointensity > 0) & (chunks.iointensity <= cutoff)
    late = (timeout_h > 0) & (now_s - chunks.frozentime_s > 3600.0 * timeout_h)
    return np.asarray((chunks.taskpriority >= PRIORITY_WITHOUT_CHECK) | quiet | late)


def passing(chain: AnalysisChain, evaluation: Evaluation) -> Bools:
    """(T, Q): the queues that no rule rejected for good; those skipped for now are among them."""
    lasting = [chain.is_persistent(index) for index in range(2 * len(chain.filters))]
    # FEASIBLE and NOT_A_CANDIDATE are negative: they index the two entries after the rules
    lookup = np.array([*(not one for one in lasting), False, True], dtype=np.bool_)
    return np.asarray(lookup[evaluation.reason])


def with_problems(chain: AnalysisChain, evaluation: Evaluation) -> Bools:
    """(T, Q): the queues that a rule skipped for a problem of the user."""
    problems = [rule.problem_for_user for rule in chain.filters]
    # two entries for FEASIBLE and NOT_A_CANDIDATE, which index from the end
    lookup = np.array([*problems, *problems, False, False], dtype=np.bool_)
    return np.asarray(lookup[evaluation.reason])


def too_few(alive: Bools, wanted: Ints) -> Bools:
    """(T,): fewer queues are ``alive`` (T, Q) than each job of the chunk is ``wanted`` (T,) to run at."""
    return np.asarray(alive.sum(axis=1) < wanted)


def second_pass(
    chain: AnalysisChain,
    first: Evaluation,
    again: Ints,
    wanted: Ints,
    judging: Judging,
    first_alive: Bools | None = None,
) -> Evaluation:
    """Evaluate the second pass of the chunks ``again`` (positions in the block).

    A chunk for which the first pass left no queue gets what the second leaves, if that is enough. One that had some,
    but fewer than its jobs are to run at, gets the queues of both passes, if the second finds any at all; whether these
    are enough is checked after the passes.

    Args:
        chain: the rules.
        first: the evaluation of the first pass, (T, Q).
        again: positions of the chunks.
        wanted: (T,) at how many queues each job is to run.
        judging: judges these chunks without the locality check.
        first_alive: (T, Q) the queues that the first pass left; by default those that no rule rejected for good.
    """
    second = judging(chain.filters, None)
    faults = (*first.faults, *second.faults)
    earlier = (passing(chain, first) if first_alive is None else first_alive)[again]
    alive = passing(chain, second)
    enough = np.where(earlier.any(axis=1), alive.any(axis=1), ~too_few(alive, wanted[again]))
    own_left, own_reason = second.feasible & enough[:, None], second.reason
    both = (enough & earlier.any(axis=1))[:, None]
    if both.any():
        temporary = [index for index in range(len(chain.filters)) if not chain.is_persistent(index)]
        third = judging(tuple(chain.filters[index] for index in temporary), earlier | alive)
        # the indices are those of these few rules, followed by those of the same rules where they could not judge
        codes = [*temporary, *(index + len(chain.filters) for index in temporary), NOT_A_CANDIDATE, FEASIBLE]
        reason = np.where(earlier | alive, np.array(codes, dtype=own_reason.dtype)[third.reason], own_reason)
        own_left, own_reason = np.where(both, third.feasible, own_left), np.where(both, reason, own_reason)
        faults = (*faults, *third.faults)
    feasible, reason = first.feasible.copy(), first.reason.copy()
    feasible[again], reason[again] = own_left, own_reason
    return Evaluation(feasible, reason, faults)

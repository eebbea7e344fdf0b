"""The result of a chunk as a decision: funnel, candidates with factors, and a code for every rejected queue."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from broker.domain.arrays import AnyArray
from broker.domain.decisions import Candidate, Decision, FunnelStep, Outcome
from broker.domain.queues import QueueTable
from broker.engine.chain import Chain
from broker.engine.evaluate import LEFT, reason_codes
from broker.engine.job_cycle import ChunkResult, JobCycle
from broker.engine.rank import cut_codes

UNKNOWN_QUEUE = "unknown_queue"


@dataclass(frozen=True)
class Steps:
    """The codes of a chain.

    Attributes:
        codes: by index: filters, filters that could not judge, cuts and the steps of the ranking.
        funnel: the indices in the order of the funnel.
        departure: for each index when its candidates go: rules for good, then rules for now, then the rest.
    """

    codes: tuple[str, ...]
    funnel: tuple[int, ...]
    departure: tuple[int, ...]


@lru_cache(maxsize=16)
def steps_of(chain: Chain) -> Steps:
    """The codes of a chain and their order."""
    count = len(chain.filters)
    codes = reason_codes(chain.filters) + cut_codes(chain.cuts)
    order = [step for index in range(count) for step in (index, index + count)]
    temporary = [rule.kind == "temporary" for rule in chain.filters]
    judged = [(index % count) + count * temporary[index % count] for index in range(2 * count)]
    rest = range(2 * count, len(codes))
    return Steps(codes, (*order, *rest), (*judged, *rest))


def decision_of(cycle: JobCycle, result: ChunkResult) -> Decision:
    """The decision on one chunk: it is brokered when it has candidates, else it is pending."""
    steps, position = steps_of(cycle.chain), deciding(cycle, result)
    chunks, row = cycle.work.chunks, result.row
    outcome: Outcome = cycle.outcome(result)
    ramcount = float(chunks.ramcount[row])
    funnel = _funnel(steps, position)
    rejected = _rejected(cycle.snapshot.queues, steps, position)
    if result.blocked:
        # whatever the rules say of the queues, the chunk itself cannot go: the queues that are left go with it
        left = np.flatnonzero(position == LEFT)
        funnel = (*funnel, FunnelStep(result.reason, len(left), 0))
        rejected.update((str(name), result.reason) for name in cycle.snapshot.queues.name[left])
    rejected.update((name, UNKNOWN_QUEUE) for name in cycle.unknown_queues(row))
    return Decision(
        jeditaskid=int(chunks.jeditaskid[row]),
        datasetid=int(chunks.datasetid[row]),
        ramcount=None if np.isnan(ramcount) else ramcount,
        brokerage=cycle.chain.brokerage,
        outcome=outcome,
        reason=result.reason,
        candidates=_candidates(cycle, result),
        rejected=rejected,
        funnel=funnel,
        notes=(*_notes(cycle), *cycle.remarks(result)),
    )


def deciding(cycle: JobCycle, result: ChunkResult) -> AnyArray:
    """(Q,): for each candidate the index of its code in :class:`Steps`.

    LEFT marks those that nothing rejected, lower values those that never were candidates.
    """
    position: AnyArray = result.block.evaluation.reason[result.row - result.block.rows.start].astype(np.int64)
    ranking = result.ranking
    if ranking is not None:
        behind = 2 * len(cycle.chain.filters)
        position[result.left] = np.where(ranking.cut >= 0, ranking.cut.astype(np.int64) + behind, LEFT)
    return np.asarray(position)


def _funnel(steps: Steps, position: AnyArray) -> tuple[FunnelStep, ...]:
    """Every rule that judged, with the candidates before and after: first minus all cuts is what is left."""
    current = int((position >= LEFT).sum())
    counts = np.bincount(position[position >= 0], minlength=len(steps.codes)).tolist()
    funnel = []
    for step in steps.funnel:
        cut = counts[step]
        if cut or not steps.codes[step].startswith("unknown_"):
            funnel.append(FunnelStep(steps.codes[step], current, current - cut))
            current -= cut
    return tuple(funnel)


def _rejected(queues: QueueTable, steps: Steps, position: AnyArray) -> dict[str, str]:
    """Code by pseudo-queue, and by unified queue where none of its pseudo-queues is left: that of the last to go.

    The last to go is the one that the latest rule rejected; ties go to the later name.
    """
    gone = np.flatnonzero(position >= 0)
    names, unified_names = queues.name[gone].tolist(), queues.unified_name[gone].tolist()
    alive = set(queues.unified_name[position == LEFT].tolist())
    rejected: dict[str, str] = {}
    last: dict[str, int] = {}
    for name, unified, step in zip(names, unified_names, position[gone].tolist(), strict=True):
        rejected[name] = steps.codes[step]
        if unified not in alive and steps.departure[step] >= steps.departure[last.get(unified, step)]:
            last[unified] = step
    for unified, step in last.items():
        rejected.setdefault(unified, steps.codes[step])
    return rejected


def _candidates(cycle: JobCycle, result: ChunkResult) -> tuple[Candidate, ...]:
    ranking = result.ranking
    if ranking is None:
        return ()
    inside = result.row - result.block.rows.start
    fixed = [rule.code for rule in cycle.chain.weights]
    moving = [rule.code for rule in cycle.chain.load_weights]
    shape = result.block.evaluation.left.shape
    tables = [np.broadcast_to(factor, shape)[inside] for factor in result.block.factors]
    chosen = []
    for place in ranking.chosen:
        queue = result.left[place]
        factors = {code: float(factor[place]) for code, factor in zip(moving, ranking.load_factors, strict=True)}
        factors.update({code: float(table[queue]) for code, table in zip(fixed, tables, strict=True)})
        bootstrap = bool(ranking.bootstrap[place])
        weight = 0.0 if bootstrap else float(ranking.weight[place])
        chosen.append(Candidate(str(cycle.snapshot.queues.name[queue]), weight, factors, bootstrap))
    return tuple(chosen)


def _notes(cycle: JobCycle) -> tuple[str, ...]:
    """What could not be known, as codes: ``source:state`` and ``rule:fault``."""
    sources = [f"source_{state.state}:{state.name}" for state in cycle.snapshot.states if not state.usable]
    return (*sources, *sorted({f"rule_fault:{fault.rule}" for fault in cycle.faults}))

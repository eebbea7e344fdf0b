"""The result of a chunk as a decision: funnel, candidates with factors, and a code for every rejected queue."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import AnyArray
from broker.domain.decisions import Candidate, Decision, FunnelStep, Outcome
from broker.domain.queues import QueueTable
from broker.engine.evaluate import LEFT, AnyFilter, reason_codes
from broker.engine.job_cycle import ChunkResult, JobCycle
from broker.engine.rank import cut_codes

UNKNOWN_QUEUE = "unknown_queue"


def decision_of(cycle: JobCycle, result: ChunkResult) -> Decision:
    """The decision on one chunk: it is brokered when it has candidates, else it is pending."""
    codes, steps, position = decisive_steps(cycle, result)
    chunks, row = cycle.work.chunks, result.row
    outcome: Outcome = "pending" if result.reason else "brokered"
    ramcount = float(chunks.ramcount[row])
    rejected = _rejected(cycle.snapshot.queues, cycle.chain.filters, codes, position)
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
        funnel=_funnel(codes, steps, position),
        notes=_notes(cycle),
    )


def decisive_steps(cycle: JobCycle, result: ChunkResult) -> tuple[tuple[str, ...], tuple[int, ...], AnyArray]:
    """All codes, the order in which they stand in the funnel, and for each candidate the index of its code.

    LEFT marks the chosen, lower values those that never were candidates.
    """
    filters, cuts = cycle.chain.filters, cycle.chain.cuts
    codes = reason_codes(filters) + cut_codes(cuts)
    position = result.block.evaluation.reason[result.row - result.block.rows.start].astype(np.int64)
    if result.ranking is not None:
        position[result.left] = np.where(
            result.ranking.cut >= 0, result.ranking.cut.astype(np.int64) + 2 * len(filters), LEFT
        )
    order = [step for index in range(len(filters)) for step in (index, index + len(filters))]
    steps = (*order, *range(2 * len(filters), len(codes)))
    return codes, steps, position


def _funnel(codes: tuple[str, ...], steps: tuple[int, ...], position: AnyArray) -> tuple[FunnelStep, ...]:
    """Every rule that judged, with the candidates before and after: first minus all cuts is what is left."""
    current = int((position >= LEFT).sum())
    counts = np.bincount(position[position >= 0], minlength=len(codes))
    funnel = []
    for step in steps:
        cut = int(counts[step])
        if cut or not codes[step].startswith("unknown_"):
            funnel.append(FunnelStep(codes[step], current, current - cut))
            current -= cut
    return tuple(funnel)


def _departures(filters: Sequence[AnyFilter], codes: int) -> list[int]:
    """For each code the moment at which its candidates go: rules for good, then rules for now, then the cuts."""
    count = len(filters)
    temporary = [rule.kind == "temporary" for rule in filters]
    judged = [(index % count) + count * temporary[index % count] for index in range(2 * count)]
    return [*judged, *range(2 * count, codes)]


def _rejected(
    queues: QueueTable, filters: Sequence[AnyFilter], codes: tuple[str, ...], position: AnyArray
) -> dict[str, str]:
    """Code by pseudo-queue, and by unified queue where none of its pseudo-queues is left: that of the last to go.

    The last to go is the one that the latest rule rejected; ties go to the later name.
    """
    rejected: dict[str, str] = {}
    last: dict[str, int] = {}
    departure = _departures(filters, len(codes))
    alive = {str(queues.unified_name[index]) for index in np.flatnonzero(position == LEFT)}
    for index in np.flatnonzero(position >= 0):
        step = int(position[index])
        rejected[str(queues.name[index])] = codes[step]
        unified = str(queues.unified_name[index])
        if unified not in alive and (unified not in last or departure[step] >= departure[last[unified]]):
            last[unified] = step
    for unified, step in last.items():
        rejected.setdefault(unified, codes[step])
    return rejected


def _candidates(cycle: JobCycle, result: ChunkResult) -> tuple[Candidate, ...]:
    ranking = result.ranking
    if ranking is None:
        return ()
    inside = result.row - result.block.rows.start
    fixed = [rule.code for rule in cycle.chain.weights]
    moving = [rule.code for rule in cycle.chain.load_weights]
    shape = result.block.fixed_weight.shape
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

"""Counts that the decisions of a batch add, computed for the whole batch at once: by queue, and why work waits.

:func:`counts_of` counts how often each queue was chosen and rejected, by code. :func:`main_reasons` gives why work
waits as one code for each decision: that of the rule that rejected most queues, if rules left none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.codec.packed_reasons import FEASIBLE, Reasons, RejectedNames, group_steps
from broker.domain.arrays import Bools, Ints
from broker.domain.chosen_candidates import Legend
from broker.domain.decisions import DecisionRecord
from broker.domain.rejection_counts import CANDIDATE, QueueCounts, rejection_counts


def counts_of(records: Sequence[DecisionRecord], distinct: Sequence[bool]) -> QueueCounts:
    """How often each queue was chosen and rejected, by code, and the jobs that it got.

    Args:
        records: of one brokerage.
        distinct: for each record, whether its chunk is counted for the first time in the bucket.
    """
    total = QueueCounts.none()
    by_legend: dict[Legend, list[int]] = {}
    for index, record in enumerate(records):
        reasons = reasons_of(record)
        if reasons is None or not reasons.legend.names:
            total = total.plus(_by_name([record], [distinct[index]]))
        else:
            by_legend.setdefault(reasons.legend, []).append(index)
    for legend, rows in by_legend.items():
        some = [records[row] for row in rows]
        total = total.plus(_by_position(legend, some, np.array([distinct[row] for row in rows])))
    return total


def reasons_of(record: DecisionRecord) -> Reasons | None:
    """The packed reasons of a decision; None if it was built with names."""
    rejected = record.decision.rejected
    return rejected.reasons if isinstance(rejected, RejectedNames) else None


def _by_position(legend: Legend, records: Sequence[DecisionRecord], distinct: Bools) -> QueueCounts:
    queues = legend.group_names or legend.names
    packed = [reasons for reasons in map(reasons_of, records) if reasons is not None]
    position = np.stack([one.position for one in packed]).astype(np.int64)
    step = group_steps(legend, position) if legend.groups else position
    blocked = list(dict.fromkeys(one.blocked for one in packed if one.blocked))
    steps = (*legend.codes, CANDIDATE, *blocked)
    # two rules of a chain may have the same code
    codes = tuple(dict.fromkeys(steps))
    code_of = np.array([codes.index(one) for one in steps])
    left = np.array([len(legend.codes) + (1 + blocked.index(one.blocked) if one.blocked else 0) for one in packed])
    step = np.where(step == FEASIBLE, left[:, None], step)
    step = np.where(step >= 0, code_of[step], step)
    counts = QueueCounts(
        queues,
        codes,
        _cells(step, len(codes)),
        _cells(step[distinct], len(codes)),
        _jobs(legend, queues, records),
    )
    used = np.flatnonzero(counts.decisions.any(axis=1))
    used_codes = tuple(codes[at] for at in used)
    counts = QueueCounts(queues, used_codes, counts.decisions[used], counts.chunks[used], counts.jobs)
    refused = [index for index, one in enumerate(packed) if one.refused]
    for index in refused:
        counts = counts.plus(_named(dict(packed[index].refused), bool(distinct[index])))
    return counts


def _cells(step: Ints, codes: int) -> Ints:
    """(C, Q): how often each step occurs in each column."""
    size = step.shape[1]
    cells = (step * size + np.arange(size))[step >= 0]
    return np.bincount(cells, minlength=codes * size).reshape(codes, size)


def _jobs(legend: Legend, queues: Sequence[str], records: Sequence[DecisionRecord]) -> Ints:
    jobs = np.zeros(len(queues), dtype=np.int64)
    for record in records:
        for name, number in record.assigned.items():
            at = legend.place_of.get(name)
            if at is not None:
                jobs[legend.group_of[at] if legend.groups else at] += number
    return jobs


def _by_name(records: Sequence[DecisionRecord], distinct: Sequence[bool]) -> QueueCounts:
    """Counts of decisions that carry names instead of positions."""
    total = QueueCounts.none()
    for record, first in zip(records, distinct, strict=True):
        chosen = {one.name: CANDIDATE for one in record.decision.candidates}
        counts = _named({**chosen, **record.decision.rejected}, first)
        for name, number in record.assigned.items():
            if name in counts.queues:
                counts.jobs[counts.queues.index(name)] += number
        total = total.plus(counts)
    return total


def _named(codes: dict[str, str], first: bool) -> QueueCounts:
    """The counts of one decision, given the code of each name."""
    counts = QueueCounts.none(tuple(codes), tuple(dict.fromkeys(codes.values())))
    for at, code in enumerate(codes.values()):
        counts.decisions[counts.codes.index(code), at] = 1
        counts.chunks[counts.codes.index(code), at] = int(first)
    return counts


#: Reasons that only state that no candidate is left.
NO_CANDIDATES = ("no_candidates", "job_check_failed")


def main_reasons(records: Sequence[DecisionRecord]) -> list[str]:
    """The main reason of each decision; empty where it is brokered.

    Where rules left no candidate, it is the code that rejected most queues, the later one on ties; where there never
    was a candidate, the code of the first name that stood for none; else the reason of the decision.
    """
    codes = [one.decision.reason if one.decision.outcome != "brokered" else "" for one in records]
    by_legend: dict[Legend, list[tuple[int, Reasons]]] = {}
    for row, record in enumerate(records):
        if codes[row] not in NO_CANDIDATES:
            continue
        reasons = reasons_of(record)
        if reasons is not None and reasons.legend.names:
            by_legend.setdefault(reasons.legend, []).append((row, reasons))
        else:
            codes[row] = _of_names(record) or codes[row]
    for legend, some in by_legend.items():
        for (row, _), code in zip(some, _most_rejecting(legend, [reasons for _, reasons in some]), strict=True):
            codes[row] = code or codes[row]
    return codes


def _most_rejecting(legend: Legend, reasons: Sequence[Reasons]) -> list[str]:
    position = np.stack([one.position for one in reasons]).astype(np.int64)
    step = group_steps(legend, position) if legend.groups else position
    size = len(legend.codes)
    order = np.array(legend.order, dtype=np.int64)
    place = np.full(size, -1, dtype=np.int64)
    place[order] = np.arange(len(order))
    cells = (np.arange(len(step))[:, None] * size + step)[step >= 0]
    counts = np.bincount(cells, minlength=len(step) * size).reshape(len(step), size)
    best = np.argmax(np.where(counts > 0, counts * size + place, -1), axis=1)
    return [
        legend.codes[code] if counts[row, code] else next(iter(reasons[row].refused.values()), "")
        for row, code in enumerate(best.tolist())
    ]


def _of_names(record: DecisionRecord) -> str:
    decision = record.decision
    funnel = [(step.code, step.before, step.after) for step in decision.funnel]
    counts = rejection_counts(decision.rejected, funnel, [one.name for one in decision.candidates])
    best = max(enumerate(counts.rejected), key=lambda line: (line[1].rejected.queues, line[0]), default=None)
    if best is not None:
        return best[1].code
    return next(iter(counts.not_candidates.values()), "")

"""Counts by queue that the decisions of a batch add, computed for the whole batch at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.codec.packed_reasons import FEASIBLE, Reasons, RejectedNames, group_steps
from broker.domain.arrays import Bools, Ints
from broker.domain.decision_records import DecisionRecord
from broker.domain.legend import Legend
from broker.domain.queue_counts import CANDIDATE, QueueCounts


def counts_of(records: Sequence[DecisionRecord], distinct: Sequence[bool]) -> QueueCounts:
    """How often each queue was chosen and rejected, by code, and the jobs that it got.

    Args:
        records: of one brokerage.
        distinct: for each whether its chunk is counted for the first time in the bucket.
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
    """The packed reasons of a decision; None where it was made with names."""
    rejected = record.decision.rejected
    return rejected.reasons if isinstance(rejected, RejectedNames) else None


def _by_position(legend: Legend, records: Sequence[DecisionRecord], distinct: Bools) -> QueueCounts:
    queues = legend.group_names or legend.names
    found = [reasons for reasons in map(reasons_of, records) if reasons is not None]
    position = np.stack([one.position for one in found]).astype(np.int64)
    step = group_steps(legend, position) if legend.groups else position
    blocked = list(dict.fromkeys(one.blocked for one in found if one.blocked))
    steps = (*legend.codes, CANDIDATE, *blocked)
    # two rules of a chain may give the same code
    codes = tuple(dict.fromkeys(steps))
    code_of = np.array([codes.index(one) for one in steps])
    left = np.array([len(legend.codes) + (1 + blocked.index(one.blocked) if one.blocked else 0) for one in found])
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
    kept = tuple(codes[at] for at in used)
    counts = QueueCounts(queues, kept, counts.decisions[used], counts.chunks[used], counts.jobs)
    refused = [index for index, one in enumerate(found) if one.refused]
    for index in refused:
        counts = counts.plus(_named(dict(found[index].refused), bool(distinct[index])))
    return counts


def _cells(step: Ints, codes: int) -> Ints:
    """(C, Q): how often each step stands in each column."""
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

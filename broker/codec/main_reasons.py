"""Why work waits, in one code: that of the rule that rejected most queues, where rules left none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.codec.decision_counts import reasons_of
from broker.codec.packed_reasons import Reasons, group_steps
from broker.domain.decision_records import DecisionRecord
from broker.domain.legend import Legend
from broker.domain.rejection_counts import rejection_counts

#: Reasons that say only that no candidate is left.
NO_CANDIDATES = ("no_candidates", "job_check_failed")


def main_reasons(records: Sequence[DecisionRecord]) -> list[str]:
    """The main reason of each decision; empty where it is brokered.

    Where rules left no candidate it is the code that rejected most queues, of equals the later one; where there never
    was a candidate the code of the first name that stood for none; else the reason of the decision.
    """
    found = [one.decision.reason if one.decision.outcome != "brokered" else "" for one in records]
    by_legend: dict[Legend, list[tuple[int, Reasons]]] = {}
    for row, record in enumerate(records):
        if found[row] not in NO_CANDIDATES:
            continue
        reasons = reasons_of(record)
        if reasons is not None and reasons.legend.names:
            by_legend.setdefault(reasons.legend, []).append((row, reasons))
        else:
            found[row] = _of_names(record) or found[row]
    for legend, some in by_legend.items():
        for (row, _), code in zip(some, _most_rejecting(legend, [reasons for _, reasons in some]), strict=True):
            found[row] = code or found[row]
    return found


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

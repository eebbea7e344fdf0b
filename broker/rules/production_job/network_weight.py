"""How well a queue is linked to the nucleus that collects its output.

Source: ATLAS Production Job Brokerage, Network Weight; its plots as PanDA production brokerage, network weight.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from broker.domain.arrays import IdentityCache, RowsByKind, rows_of_all
from broker.domain.facts import JobFacts
from broker.rules.contract import AnyArray, Floats, TuningView, Value, flag, number

ACTIVE, IMPORTANCE, CAP = "NW_ACTIVE", "NW_QUEUE_IMPORTANCE", "NQUEUED_SAT_CAP"
NETWORK_KEYS = (IMPORTANCE, CAP)
LINK_FACTS = ("storage_at_nucleus", "link_queued", "throughput_mb_per_s", "closeness")
AT_NUCLEUS = 2.5
WORST_CLOSENESS = 11.0
DEFAULT_CLOSENESS = 7.7
# weight for a throughput above each step, in MB/s; 1 up to the first
THROUGHPUT_STEPS_MB_PER_S = np.array([1.0, 2.0, 10.0, 20.0, 50.0, 75.0, 100.0, 200.0])
THROUGHPUT_WEIGHTS = np.array([1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 1.9, 2.0])
_known = IdentityCache[Floats]()


def network_weight(facts: JobFacts, tuning: TuningView) -> RowsByKind:
    """(T, Q): importance x queued term + (1 - importance) x throughput term; 2.5 for both at the nucleus.

    Queued: 2 on an empty link, 1 at NQUEUED_SAT_CAP files. Throughput: in steps from 1 to 2; if unknown, from the
    closeness (0 best, 11 worst, 7.7 if unknown too). A link depends only on the nucleus and on whether the chunk is
    express, so it is weighed once for each combination.
    """
    figures = [facts.by_kind(name) for name in LINK_FACTS]
    kind, column = figures[0].kind, figures[0].column
    if kind is None or not all(_alike(figures[0], one) for one in figures[1:]):
        return rows_of_all(_weights([one.every for one in figures], tuning), len(facts.initial))
    tables = [one.table for one in figures]
    if 8 * len(kind) < len(tables[0]):
        present, own = np.unique(kind, return_inverse=True)
        return RowsByKind(_weights([table[present] for table in tables], tuning), own.ravel(), column)
    # blocks of one cycle have the same tables
    return RowsByKind(_known.of((*tables, tuning), lambda: _weights(tables, tuning)), kind, column)


def _alike(one: RowsByKind, other: RowsByKind) -> bool:
    """Whether two figures have the same kinds and columns."""
    pairs = ((one.kind, other.kind), (one.column, other.column))
    return all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs)


def is_switched_on(tuning: TuningView) -> bool:
    """Whether an operator has set NW_ACTIVE to true; the default does not count."""
    return tuning.is_set(ACTIVE) and tuning.flag(ACTIVE)


def network_inputs(facts: JobFacts) -> dict[str, Value]:
    """The figures of the weight, for one chunk and one candidate."""
    return {
        "queued_files": number(facts.link_queued),
        "throughput_mbps": number(facts.throughput_mb_per_s),
        "closeness": number(facts.closeness),
        "at_nucleus": flag(facts.storage_at_nucleus),
    }


def _throughput_term(throughput_mb_per_s: Floats, closeness: Floats) -> Floats:
    steps = THROUGHPUT_WEIGHTS[
        np.searchsorted(THROUGHPUT_STEPS_MB_PER_S, np.nan_to_num(throughput_mb_per_s), side="left")
    ]
    known = np.where(np.isnan(closeness), DEFAULT_CLOSENESS, closeness)
    by_closeness = 1.0 + (WORST_CLOSENESS - known) / WORST_CLOSENESS
    return np.where(np.isnan(throughput_mb_per_s), by_closeness, steps)


def _weights(figures: Sequence[AnyArray], tuning: TuningView) -> Floats:
    """The weights of links, from the figures by :data:`LINK_FACTS`."""
    here, files, throughput_mb_per_s, closeness = figures
    importance, cap = tuning.number(IMPORTANCE), tuning.number(CAP)
    # at a cap of 0 every link is closed and counts as full
    filled = np.nan_to_num(files) / cap if cap > 0 else 1.0
    queued = 2.0 - filled
    throughput = _throughput_term(throughput_mb_per_s, closeness)
    weight = importance * np.where(here, AT_NUCLEUS, queued) + (1.0 - importance) * np.where(
        here, AT_NUCLEUS, throughput
    )
    # links far above the cap are rejected elsewhere, but a weight must never be negative
    return np.asarray(np.maximum(weight, 0.0))

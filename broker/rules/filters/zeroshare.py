"""Queues can give some kinds of tasks no share."""

from __future__ import annotations

import numpy as np

from broker.domain.arrays import AnyArray, Bools, distinct
from broker.domain.decisions import Observation, Value
from broker.domain.facts import JobFacts
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import Filter, TuningView
from broker.rules.fairshare import ShareColumns, Verdict, deciding_part, texts_of_groups, unreadable_parts, verdicts
from broker.rules.observing import number, text

EXEMPT_WORK_QUEUES = ("test", "validation")
MANAGED = "managed"


class Zeroshare(Filter):
    """Rejects queues whose ``fairsharepolicy`` gives the task a share of 0.

    Not for tasks of the work queues test and validation, unless they have a single pre-assigned queue and a label
    other than managed. A policy part that cannot be read is unknown; the task is accepted there. Source: ATLAS
    Production Job Brokerage, Zero Share.
    """

    name = "zeroshare"
    code = "zeroshare"
    title = "The queue has a share for tasks of this kind"
    sources = ("queues",)
    unknown_policy = "keep"

    def applies(self, tasks: WorkTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """Chunks that are no test or validation."""
        tested = np.isin(tasks.gshare.astype(np.str_), EXEMPT_WORK_QUEUES)
        return np.asarray(~tested | (facts.single & (tasks.prodsourcelabel != MANAGED)))

    def keep(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools:
        """(T, Q), or (1, Q) while no queue has a policy."""
        return np.asarray(_verdicts(tasks, candidates) != Verdict.REJECT.value)

    def unknown(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Bools | None:
        """(T, Q): a part that cannot be read is reached before one that decides; None while all can be read."""
        policies, _ = distinct(candidates.fairsharepolicy)
        if not any(unreadable_parts(policy) for policy in policies if policy):
            return None
        return np.asarray(_verdicts(tasks, candidates) == Verdict.UNKNOWN.value)

    def observe(self, tasks: WorkTable, candidates: QueueTable, facts: JobFacts, tuning: TuningView) -> Observation:
        """Share of the task: 0 or not, and the part of the policy that says so."""
        policy = text(candidates.fairsharepolicy)
        columns = _columns(tasks)
        verdict = Verdict(int(verdicts(policy, columns)[0]))
        inputs: dict[str, Value] = {
            "part": deciding_part(policy, columns),
            "process_group": str(columns.group[0]),
            "workinggroup": text(tasks.workinggroup),
            "gshare": text(tasks.gshare),
            "priority": number(tasks.currentpriority),
            "unreadable": "; ".join(unreadable_parts(policy or "")[:3]) or None,
        }
        return Observation(verdict.name.lower(), "!=", "reject", "-", "queue.fairsharepolicy", inputs)


def _columns(tasks: WorkTable) -> ShareColumns:
    return ShareColumns(
        texts_of_groups(list(tasks.processingtype.ravel())),
        tasks.workinggroup.ravel(),
        tasks.gshare.ravel(),
        tasks.currentpriority.ravel(),
        tasks.merging.ravel(),
    )


def _verdicts(tasks: WorkTable, candidates: QueueTable) -> AnyArray:
    """Once for each distinct policy, then gathered: (T, Q), or (1, Q) without policies."""
    policies, codes = distinct(candidates.fairsharepolicy)
    if not any(policies):
        return np.full(candidates.fairsharepolicy.shape, Verdict.ACCEPT.value, dtype=np.int8)
    columns = _columns(tasks)
    table = np.stack([verdicts(policy, columns) for policy in policies], axis=1)
    return np.asarray(np.take(table, codes, axis=1))

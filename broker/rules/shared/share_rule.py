"""The base class of both job brokerages' rules on shares: queues can give some kinds of tasks no share."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import numpy as np

from broker.domain.arrays import kinds_of, spread
from broker.domain.queues import QueueTable
from broker.domain.work import WorkTable
from broker.rules.contract import (
    AnyArray,
    Bools,
    Filter,
    Ints,
    JobPairs,
    Observation,
    Options,
    Reason,
    Value,
    number,
    text,
)
from broker.rules.shared.fairshare import (
    ShareColumns,
    Verdict,
    deciding_part,
    texts_of_groups,
    unreadable_parts,
    verdicts,
)

PairsT = TypeVar("PairsT", bound=JobPairs)


class ShareOptions(Options):
    """For merging, a part of a policy with a condition on the priority is passed over, or its condition is met."""

    merging_priority: Literal["passed_over", "met"] = "passed_over"

    @property
    def met(self) -> bool:
        """Whether merge chunks meet every condition on the priority."""
        return self.merging_priority == "met"


class ShareRule(Filter[PairsT], Generic[PairsT]):
    """Rejects queues whose ``fairsharepolicy`` gives the task a share of 0.

    A policy part that cannot be read is unknown; the task is accepted there. Source: ATLAS Production Job Brokerage,
    Zero Share.
    """

    reason = Reason(
        code="zeroshare",
        title="The queue has a share for tasks of this kind",
        violation="The site gives no share of the queue to tasks of this kind",
        no_candidate="has a share for tasks of this kind",
        who="ask",
        cure="The site decides who may use the queue (`fairsharepolicy` in CRIC); ask it, or wait for other queues.",
    )
    sources = ("queues",)
    unknown_policy = "keep"
    options: ShareOptions = ShareOptions()

    def keep(self, pairs: PairsT) -> Bools:
        """(T, Q), or (1, Q) while no queue has a policy."""
        table, codes = _verdicts(pairs.chunks, pairs.candidates, self.options.met)
        return spread(table != Verdict.REJECT.value, codes)

    def unknown(self, pairs: PairsT) -> Bools | None:
        """(T, Q): an unreadable part is reached before one that decides; None while all can be read."""
        policies, _ = _policies(pairs.candidates)
        if not any(unreadable_parts(policy) for policy in policies if policy):
            return None
        table, codes = _verdicts(pairs.chunks, pairs.candidates, self.options.met)
        return spread(table == Verdict.UNKNOWN.value, codes)

    def observe(self, pairs: PairsT) -> Observation:
        """Whether the share of the task is 0, and the part of the policy that decides it."""
        policy = text(pairs.candidates.fairsharepolicy)
        columns = _columns(pairs.chunks)
        met = self.options.met
        verdict = Verdict(int(verdicts(policy, columns, merging_meets_priority=met)[0]))
        inputs: dict[str, Value] = {
            "part": deciding_part(policy, columns, merging_meets_priority=met),
            "process_group": str(columns.group[0]),
            "workinggroup": text(pairs.chunks.workinggroup),
            "gshare": text(pairs.chunks.gshare),
            "priority": number(pairs.chunks.currentpriority),
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


def _verdicts(tasks: WorkTable, candidates: QueueTable, merging_meets_priority: bool) -> tuple[AnyArray, Ints]:
    """(T, P) for each distinct policy, or (1, P) without any, and (Q,) the policy of each candidate."""
    policies, codes = _policies(candidates)
    if not any(policies):
        return np.full((1, len(policies)), Verdict.ACCEPT.value, dtype=np.int8), codes
    columns = _columns(tasks)
    columns_by_policy = [
        verdicts(policy, columns, merging_meets_priority=merging_meets_priority) for policy in policies
    ]
    return np.stack(columns_by_policy, axis=1), codes


def _policies(candidates: QueueTable) -> tuple[list[str | None], Ints]:
    """The distinct policies, and (Q,) the one of each candidate."""
    kinds = kinds_of((candidates.fairsharepolicy,))
    return candidates.fairsharepolicy.ravel().take(kinds.first).tolist(), kinds.kind

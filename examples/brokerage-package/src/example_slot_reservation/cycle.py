"""A cycle: each request in its order against the queues, with what was reserved before it taken off. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np

from broker.brokerages.base import Cycle, StageTimes
from broker.domain.arrays import Bools, Floats, Ints, as_column, as_row, taken
from broker.domain.decisions import TASK_CHANGED, Candidate, Decision, DecisionRecord, FunnelStep
from broker.domain.placements import WriteOutcome
from broker.engine.shared.evaluate import UNDECLARED, RuleViews, evaluate, prepare, reason_codes
from broker.engine.shared.filter_cache import RuleFault
from broker.engine.shared.fixed_factors import factor_of_block
from broker.engine.shared.pair_state import FEASIBLE
from broker.gdpconfig import Tuning
from broker.snapshot.snapshot import Snapshot
from example_slot_reservation.requests import RequestTable, encoded
from example_slot_reservation.rules import SlotChain, SlotFacts, SlotPairs


@dataclass(frozen=True)
class AssignedRequest:
    """One request with its decision, and the slots that were reserved before it, by queue."""

    row: int
    decision: Decision
    before: Mapping[str, float]


@dataclass
class _Values:
    """By whose values the requests are decided: the chain with its tuning, and what of it could not be run."""

    chain: SlotChain
    views: RuleViews
    faults: list[RuleFault] = field(default_factory=list)


class SlotCycle(Cycle[AssignedRequest]):
    """One cycle over the requests of one VO."""

    def __init__(
        self, snapshot: Snapshot, requests: RequestTable, tuning: Tuning, chain: SlotChain, *, independent: bool = False
    ) -> None:
        self.snapshot, self._requests, self._independent = snapshot, requests, independent
        views, faults = prepare(chain, snapshot, requests, chain.tunings(tuning))
        self._values = [_Values(chain, views, list(faults))] * len(requests)
        self.published = published_slots(snapshot)
        self.reserved = np.zeros(len(snapshot.unified))
        self._longest_s = longest_walltime_s(snapshot)
        self._unusable = frozenset(state.name for state in snapshot.states if not state.usable)

    @property
    def faults(self) -> Sequence[RuleFault]:
        """The rules that could not be run."""
        distinct = {id(values): values for values in self._values}
        return [fault for values in distinct.values() for fault in values.faults]

    @property
    def jeditaskid(self) -> Ints:
        """(T,) the requests."""
        return self._requests.requestid

    @property
    def counts(self) -> Mapping[str, int]:
        """Requests."""
        return {"requests": len(self._requests)}

    @property
    def work(self) -> RequestTable:
        """The requests."""
        return self._requests

    def assign(self, seed: int, times: StageTimes | None = None) -> Iterator[AssignedRequest]:
        """Broker the requests in order; nothing is drawn, so ``seed`` does not matter."""
        for row in range(len(self._requests)):
            yield self.one(row)

    def one(self, row: int) -> AssignedRequest:
        """Broker one request with what is reserved now, and reserve its slots."""
        before = self.reserved_by_queue()
        decision = self._decision(row)
        if decision.outcome == "brokered" and not self._independent:
            at = np.flatnonzero(self.snapshot.unified.name == decision.candidates[0].name)
            self.reserved[at] += self._requests.slots[row]
        return AssignedRequest(row, decision, before)

    def reserved_by_queue(self) -> dict[str, float]:
        """Slots that the cycle has reserved so far."""
        at = np.flatnonzero(self.reserved).tolist()
        return {str(self.snapshot.unified.name[one]): float(self.reserved[one]) for one in at}

    def restore(self, reserved: Mapping[str, float]) -> None:
        """Let the cycle have reserved exactly these slots."""
        self.reserved = np.array([reserved.get(str(name), 0.0) for name in self.snapshot.unified.name])

    def pairs(self, row: int, queues: Ints) -> SlotPairs:
        """A request and some queues as the rules see them."""
        at = np.array([row])
        free = (self.published - self.reserved)[None, queues]
        facts = SlotFacts(self.published[None, queues] > 0, free, self._longest_s[None, queues])
        request = as_column(taken(self._requests, at))
        return SlotPairs(request, as_row(taken(self.snapshot.unified, queues)), facts, UNDECLARED, at, queues)

    def observed(self, row: int, queue: int) -> tuple[int, SlotPairs]:
        """The deciding reason of one queue for a request, and both as the rules see them."""
        pairs = self.pairs(row, np.array([queue]))
        values = self._values[row]
        evaluation = evaluate(values.chain.filters, pairs, values.views, self._unusable)
        return int(evaluation.reason[0, 0]), pairs

    def chain_of(self, row: int) -> SlotChain:
        """The rules by which a request is decided."""
        return self._values[row].chain

    def _decision(self, row: int) -> Decision:
        names = self.snapshot.unified.name
        values, pairs = self._values[row], self.pairs(row, np.arange(len(names)))
        evaluation = evaluate(values.chain.filters, pairs, values.views, self._unusable)
        values.faults += evaluation.faults
        codes, reason = reason_codes(values.chain.filters), evaluation.reason[0]
        candidates = self._ranked(values, pairs, np.flatnonzero(evaluation.feasible[0]))
        return Decision(
            jeditaskid=int(self._requests.requestid[row]),
            datasetid=None,
            ramcount=None,
            brokerage=values.chain.brokerage,
            outcome="brokered" if candidates else "pending",
            reason="" if candidates else "no_candidates",
            candidates=candidates,
            rejected={str(names[at]): codes[reason[at]] for at in np.flatnonzero(reason >= 0).tolist()},
            funnel=_funnel(codes, reason),
        )

    def _ranked(self, values: _Values, pairs: SlotPairs, feasible: Ints) -> tuple[Candidate, ...]:
        """The candidates, the highest weight first, equal ones by name."""
        factors: dict[str, Floats] = {}
        for rule in values.chain.weights:
            if self._unusable.isdisjoint(rule.sources):
                factor = rule.factor(values.views.of(rule, pairs))
                factors[rule.code] = factor_of_block(factor, pairs.facts.initial.shape)
        candidates = []
        for at in feasible.tolist():
            own = {code: float(factor[0, at]) for code, factor in factors.items()}
            candidates.append(Candidate(str(self.snapshot.unified.name[at]), float(np.prod(list(own.values()))), own))
        return tuple(sorted(candidates, key=lambda one: (-one.weight, one.name)))

    def split(self, other: SlotCycle, rows: Bools) -> SlotCycle:
        """This cycle with the requests ``rows``, shape (T,), decided by the values of ``other``."""
        both = zip(self._values, other._values, rows.tolist(), strict=True)
        self._values = [theirs if chosen else mine for mine, theirs, chosen in both]
        return self

    def encode(self, assigned: AssignedRequest) -> bytes:
        """The request, and the slots reserved before it, as they are stored."""
        return encoded(self._requests, assigned.row, assigned.before)

    def rows(self, assigned: Sequence[AssignedRequest]) -> list[tuple[int, str | None]]:
        """Each request with its queue; None: it waits."""
        return [(one.decision.jeditaskid, queue_of(one.decision)) for one in assigned]

    def records(
        self, assigned: Sequence[AssignedRequest], written: WriteOutcome | None, now: datetime
    ) -> list[DecisionRecord]:
        """The decisions; ``assigned`` of each has the slots at its queue."""
        late = frozenset() if written is None else written.tasks_skipped
        return [
            DecisionRecord(replace(one.decision, outcome="skipped", reason=TASK_CHANGED))
            if one.decision.jeditaskid in late
            else DecisionRecord(one.decision, self.slots_of(one))
            for one in assigned
        ]

    def slots_of(self, one: AssignedRequest) -> dict[str, int]:
        """The slots that a request got, by queue."""
        queue = queue_of(one.decision)
        return {} if queue is None else {queue: int(self._requests.slots[one.row])}


def queue_of(decision: Decision) -> str | None:
    """The queue where the slots are reserved, None for none."""
    return decision.candidates[0].name if decision.outcome == "brokered" else None


def published_slots(snapshot: Snapshot) -> Floats:
    """(U,) slots that resources publish, of all shares and resource types."""
    slots = np.zeros(len(snapshot.unified))
    np.add.at(slots, snapshot.slots.unified, snapshot.slots.numslots)
    return slots


def longest_walltime_s(snapshot: Snapshot) -> Floats:
    """(U,) longest walltime of the pseudo-queues of each queue; infinite where one has no limit."""
    longest = np.zeros(len(snapshot.unified))
    limit = snapshot.queues.maxtime_s
    np.maximum.at(longest, snapshot.queues.unified, np.where(limit > 0, limit, np.inf))
    return longest


def _funnel(codes: Sequence[str], reason: Any) -> tuple[FunnelStep, ...]:
    """The rules that rejected anything, in order."""
    count = int((reason >= FEASIBLE).sum())
    steps = []
    for index, code in enumerate(codes):
        cut = int((reason == index).sum())
        if cut:
            steps.append(FunnelStep(code, count, count - cut))
            count -= cut
    return tuple(steps)

"""The brokerage as the one object that agent, explain, why-not, replay and what-if ask."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np

from broker.brokerages.base import Brokerage, ReplayedDecision, Rules
from broker.codec.work_codec import Body, WorkCorruptError
from broker.domain.arrays import Texts
from broker.domain.decisions import Decision
from broker.engine.shared.answer import CHOSEN, UNKNOWN_NAME, CandidateVerdict
from broker.gdpconfig import Tuning
from broker.snapshot.snapshot import Snapshot
from example_slot_reservation import rules as shipped
from example_slot_reservation.cycle import SlotCycle
from example_slot_reservation.requests import TABLE, RequestTable, StoredRequests, decoded

RETRY_AFTER = timedelta(minutes=10)


class SlotReservation(Brokerage[RequestTable, StoredRequests]):
    """Reserves slots of HPC allocations."""

    name, title = shipped.NAME, "reservation of HPC slots"
    candidate, assigned = "queue", "slots"
    tables = "example_slot_reservation.tables:SlotTables"
    period_s = 30.0

    def chain(self) -> shipped.SlotChain:
        """The ordered rules as shipped."""
        return shipped.chain()

    def candidates(self, snapshot: Snapshot) -> Texts:
        """(U,) the names of the queues."""
        return snapshot.unified.name

    def cycle(
        self, snapshot: Snapshot, work: RequestTable, tuning: Tuning, rules: Rules, *, independent: bool = False
    ) -> SlotCycle:
        """A cycle over requests."""
        return _cycle(snapshot, work, tuning, rules, independent=independent)

    def retry_after(self, decision: Decision) -> timedelta | None:
        """How long a request waits for which no queue has room."""
        return RETRY_AFTER if decision.outcome == "pending" else None

    def decode(self, vo: str | None, bodies: list[Body], *, older: bool) -> StoredRequests:
        """Stored requests of one VO."""
        return decoded(vo, bodies, fill=older)

    def columns_not_stored(self, body: Body) -> tuple[str, ...]:
        """Columns of this version that a stored request does not have."""
        return tuple(name for name in RequestTable.__dataclass_fields__ if name not in body[TABLE])

    def vo_of(self, body: Body) -> Any:
        """The VO of a stored request."""
        return body[TABLE]["vo"][0]

    def replay(
        self, snapshot: Snapshot, tuning: Tuning, batch: StoredRequests, seed: int, rules: Rules, *, as_stored: bool
    ) -> Iterator[ReplayedDecision]:
        """Decide stored requests again."""
        cycle = _cycle(snapshot, batch.requests, tuning, rules)
        for row, before in enumerate(batch.load_before):
            if as_stored:
                cycle.restore(before)
            one = cycle.one(row)
            yield ReplayedDecision(one.decision, cycle.slots_of(one), one.before)

    def why_not(
        self, snapshot: Snapshot, tuning: Tuning, batch: StoredRequests, rules: Rules, decision: Decision, name: str
    ) -> list[CandidateVerdict]:
        """Why a stored decision did not choose a queue, or that it did."""
        positions = np.flatnonzero(snapshot.unified.name == name)
        if not len(positions):
            title = "there was no queue of this name in the snapshot"
            return [CandidateVerdict(name, UNKNOWN_NAME, "candidates", "persistent", title, None)]
        cycle = _cycle(snapshot, batch.requests, tuning, rules)
        cycle.restore(batch.load_before[0])
        return [_answer(cycle, decision, name, int(positions[0]))]


def _answer(cycle: SlotCycle, decision: Decision, name: str, queue: int) -> CandidateVerdict:
    index, pairs = cycle.observed(0, queue)
    filters = cycle.chain_of(0).filters
    if name in decision.rejected:
        rule = filters[index % len(filters)]
        seen = rule.observe(pairs) if index < len(filters) else None
        return CandidateVerdict(name, decision.rejected[name], rule.name, rule.kind, rule.title, seen)
    if decision.candidates and decision.candidates[0].name == name:
        return CandidateVerdict(name, CHOSEN, "best_fit", "ranking", "the slots are reserved here", None)
    if any(one.name == name for one in decision.candidates):
        return CandidateVerdict(name, "not_best", "best_fit", "ranking", "the request fills another queue better", None)
    return CandidateVerdict(
        name, "no_slots_published", "candidates", "persistent", "nobody publishes slots of this queue", None
    )


def _cycle(
    snapshot: Snapshot, requests: RequestTable, tuning: Tuning, rules: Rules, *, independent: bool = False
) -> SlotCycle:
    if not isinstance(rules.chain, shipped.SlotChain):
        raise WorkCorruptError(f"the work is that of {shipped.NAME}, and not of {rules.chain.brokerage}")
    return SlotCycle(snapshot, requests, tuning, rules.chain, independent=independent)

"""The place of work among what waits in its share, in the order in which the brokerage takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.brokerages.registry import brokerage as brokerage_of
from broker.decisions.answers.decision_model import Position
from broker.domain.decisions import Decision
from broker.domain.rejection_counts import rejection_counts
from broker.engine.job.placement import FLOW_CODES
from broker.engine.shared.rank import LOW_WEIGHT, OTHERS_BOOTSTRAP
from broker.history.answers.stored_states import ChunkState, most_rejecting
from broker.history.statements.task_facts import TaskSelection, read_task_facts
from broker.rules.contract import LoadCut
from broker.store.query_context import Asking


def position_of(asking: Asking, decision: Decision, states: Sequence[ChunkState]) -> Position | None:
    """The place of the work of a decision among the states of all; None where its task is not on record."""
    tasks = sorted({state.jeditaskid for state in states} | {decision.jeditaskid})
    facts = read_task_facts(asking.connection, asking.catalogue, TaskSelection(tasks=tasks))
    return position_among(decision, states, facts)


def position_among(
    decision: Decision, states: Sequence[ChunkState], facts: Mapping[int, Mapping[str, Any]]
) -> Position | None:
    """The place among chunks that wait at the same brokerage in the same share: priority first, then number. Pure."""
    if decision.jeditaskid not in facts:
        return None
    share = facts[decision.jeditaskid]["gshare"]
    waiting = {
        (state.jeditaskid, state.datasetid or 0, state.ramcount or 0.0)
        for state in states
        if state.brokerage == decision.brokerage
        and state.outcome != "brokered"
        and facts.get(state.jeditaskid, {"gshare": None})["gshare"] == share
    }
    own = (decision.jeditaskid, decision.datasetid or 0, decision.ramcount or 0.0)
    order = sorted(waiting | {own}, key=lambda one: (-(facts[one[0]]["currentpriority"] or 0), one))
    place = order.index(own) + 1
    funnel = [(step.code, step.before, step.after) for step in decision.funnel]
    code = most_rejecting(rejection_counts(decision.rejected, funnel, ()))
    return Position(
        place=place,
        of=len(order),
        ahead=place - 1,
        gshare=share,
        priority=facts[decision.jeditaskid]["currentpriority"],
        decides=decision.outcome == "throttled" or code in passing_codes(decision.brokerage),
    )


def passing_codes(brokerage: str) -> frozenset[str]:
    """Codes that go away by themselves as others of the share end or are placed elsewhere: there the place matters."""
    rules = brokerage_of(brokerage).chain()
    temporary = {rule.code for rule in rules if isinstance(rule, LoadCut) or getattr(rule, "kind", "") == "temporary"}
    return frozenset({LOW_WEIGHT, OTHERS_BOOTSTRAP, *FLOW_CODES, *temporary})

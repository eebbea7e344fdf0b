"""Our decisions beside what JEDI really did: where both agree, and for each disagreement the rule that made it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from broker.alongside.answers.shadow_models import Shadow
from broker.alongside.answers.shadow_tally import Tally
from broker.alongside.statements.panda_placements import (
    Placement,
    Wait,
    read_nuclei,
    read_placements,
    read_waits,
    tasks_of,
)
from broker.domain.decision_records import StoredDecision
from broker.domain.decisions import Decision
from broker.domain.rejection_counts import unified_of
from broker.history.statements.history_reads import decisions_between
from broker.store.query_context import Asking

#: Reasons for which something is not compared.
NO_DECISION, TOO_OLD, NO_DATASET = "no_decision", "too_old", "no_dataset"
#: Codes of disagreements that no rule made.
NOT_A_CANDIDATE, NOT_SAID = "not_a_candidate", "not_said"
#: Tasks whose decisions are in memory at once.
TASKS_AT_ONCE = 500
_CRITERIA = re.compile(r"criteria=-(\w+)")

Chunk = tuple[int, int | None, float]


@dataclass(frozen=True)
class Found:
    """The decision in force about a chunk at an instant, or why there is none to compare with."""

    decision: Decision | None
    reason: str = ""


class Decided:
    """Decisions of ours on some tasks, by brokerage and chunk.

    Args:
        decisions: oldest first.
        max_age: for so long after the last cycle that came to it a decision is compared.
    """

    def __init__(self, decisions: Iterable[StoredDecision], max_age: timedelta) -> None:
        self._max_age = max_age
        self._of: dict[str, dict[Chunk, list[StoredDecision]]] = defaultdict(lambda: defaultdict(list))
        self._chunks: dict[tuple[str, int], dict[Chunk, None]] = defaultdict(dict)
        for one in decisions:
            decision = one.record.decision
            chunk = decision.jeditaskid, decision.datasetid, decision.ramcount or 0.0
            self._of[decision.brokerage][chunk].append(one)
            self._chunks[decision.brokerage, decision.jeditaskid][chunk] = None

    def at(self, brokerage: str, chunk: Chunk, moment: datetime) -> Found:
        """The last decision about a chunk that was made by ``moment``.

        A file may have got another memory since: where the task has one chunk of the dataset only, that is meant.
        """
        task, dataset, _ = chunk
        known = self._of[brokerage]
        if chunk not in known:
            others = [one for one in self._chunks[brokerage, task] if one[1] == dataset]
            if len(others) != 1:
                return Found(None, NO_DECISION)
            chunk = others[0]
        made = known[chunk]
        place = bisect_right(made, moment, key=lambda one: one.origin.decided_at)
        if not place:
            return Found(None, NO_DECISION)
        last = made[place - 1]
        seen = min(last.last_seen_at or last.origin.decided_at, moment)
        return Found(None, TOO_OLD) if moment - seen > self._max_age else Found(last.record.decision)

    def of_task(self, brokerage: str, task: int, moment: datetime) -> list[Found]:
        """What was in force for each chunk of a task."""
        return [self.at(brokerage, chunk, moment) for chunk in self._chunks[brokerage, task]]


def refusal(decision: Decision, queue: str) -> str | None:
    """The code for which ours would not have placed a chunk at a queue; None where it would have. Pure."""
    chosen = {one.name for one in decision.candidates}
    names = chosen | {unified_of(name) for name in chosen}
    there = queue in names
    if decision.outcome == "brokered" and there:
        return None
    code = None if there else _rejection(decision.rejected, queue)
    return code or decision.reason or NOT_A_CANDIDATE


def _rejection(rejected: Mapping[str, str], queue: str) -> str | None:
    """The code of a queue; of one whose pseudo-queues were rejected one by one, that of the last of them."""
    if queue in rejected:
        return rejected[queue]
    own = [code for name, code in rejected.items() if unified_of(name) == unified_of(queue)]
    return own[-1] if own else None


def criterion(dialog: str) -> str:
    """The last criterion that PanDA's dialog names. Pure."""
    named = _CRITERIA.findall(dialog)
    return named[-1] if named else NOT_SAID


def expected(decision: Decision, jobs: int) -> dict[str, float]:
    """By unified queue the jobs that ours would have placed there, drawing by weight. Pure.

    Queues that are to get their first jobs share equally, and before all others.
    """
    if decision.outcome != "brokered" or not decision.candidates:
        return {}
    first = [one for one in decision.candidates if one.bootstrap]
    total = sum(one.weight for one in decision.candidates)
    equal = bool(first) or not total > 0
    some = first or list(decision.candidates)
    found: dict[str, float] = defaultdict(float)
    for one in some:
        found[unified_of(one.name)] += jobs * (1 / len(some) if equal else one.weight / total)
    return dict(found)


def add_placements(tally: Tally, placements: Sequence[Placement], decided: Decided) -> None:
    """Count what PanDA placed. Pure."""
    for one in placements:
        chunk = one.jeditaskid, one.datasetid, one.ramcount
        found = decided.at(one.brokerage, chunk, one.at)
        tally.placed(one)
        if found.decision is None:
            lost = one.datasetid is None and one.brokerage != "production_task"
            tally.uncompared(one.brokerage, NO_DATASET if lost else found.reason, jobs=one.jobs)
            continue
        tally.compared(one, refusal(found.decision, one.queue), expected(found.decision, one.jobs))


def add_waits(tally: Tally, waits: Sequence[Wait], decided: Decided) -> None:
    """Count the times that PanDA let a task wait. Pure."""
    for one in waits:
        found = decided.of_task(one.brokerage, one.jeditaskid, one.at)
        usable = [each.decision for each in found if each.decision is not None]
        if not usable:
            reason = TOO_OLD if any(each.reason == TOO_OLD for each in found) else NO_DECISION
            tally.uncompared(one.brokerage, reason, waits=1)
            continue
        ours = any(decision.outcome == "brokered" for decision in usable)
        tally.waited(one, criterion(one.dialog) if ours else None)


def shadow(asking: Asking, since: datetime, max_age: timedelta, brokerage: str | None = None) -> Shadow:
    """Our decisions beside what JEDI did from ``since`` on, up to the instant of asking.

    Args:
        asking: whom.
        since: start (aware).
        max_age: for so long after the last cycle that came to it a decision is compared.
        brokerage: only this one.
    """
    connection, catalogue, until = asking.connection, asking.catalogue, asking.now
    placements = [
        *read_placements(connection, catalogue, since, until),
        *read_nuclei(connection, catalogue, since, until),
    ]
    placements = [one for one in placements if brokerage in (None, one.brokerage)]
    waits = [one for one in read_waits(connection, catalogue, since, until) if brokerage in (None, one.brokerage)]
    tally = Tally()
    tasks = tasks_of(placements, waits)
    for start in range(0, len(tasks), TASKS_AT_ONCE):
        some = set(tasks[start : start + TASKS_AT_ONCE])
        decided = Decided(decisions_between(connection, sorted(some), _earliest(since, max_age), until), max_age)
        add_placements(tally, [one for one in placements if one.jeditaskid in some], decided)
        add_waits(tally, [one for one in waits if one.jeditaskid in some], decided)
    return tally.answer(since, until, max_age)


def _earliest(since: datetime, max_age: timedelta) -> datetime:
    """When the oldest decision may have been made: unchanged ones keep their row for a day."""
    return since - max_age - timedelta(days=1)

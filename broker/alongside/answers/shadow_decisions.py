"""Our decisions in force when JEDI placed something, and what each says about the place. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from broker.alongside.statements.panda_placements import Chunk
from broker.domain.decisions import Decision, StoredDecision
from broker.domain.rejection_counts import unified_of

#: Reasons why something is not compared.
NO_DECISION, TOO_OLD, NO_DATASET = "no_decision", "too_old", "no_dataset"
#: Codes of disagreements that no rule made.
NOT_A_CANDIDATE, NOT_SAID = "not_a_candidate", "not_said"
_CRITERIA = re.compile(r"criteria=-(\w+)")


@dataclass(frozen=True)
class DecisionInForce:
    """The decision in force about a chunk at an instant, or why there is none to compare with."""

    stored: StoredDecision | None
    reason: str = ""

    @property
    def decision(self) -> Decision | None:
        """The decision of the broker."""
        return None if self.stored is None else self.stored.record.decision


class DecisionsByChunk:
    """Our decisions on some tasks, by brokerage and chunk.

    Args:
        decisions: oldest first.
        max_age: how long after the last cycle that reached it a decision is compared.
    """

    def __init__(self, decisions: Iterable[StoredDecision], max_age: timedelta) -> None:
        self._max_age = max_age
        self._decisions: dict[str, dict[Chunk, list[StoredDecision]]] = defaultdict(lambda: defaultdict(list))
        self._chunks: dict[tuple[str, int], dict[Chunk, None]] = defaultdict(dict)
        for stored in decisions:
            decision = stored.record.decision
            chunk = decision.jeditaskid, decision.datasetid, decision.ramcount or 0.0
            self._decisions[decision.brokerage][chunk].append(stored)
            self._chunks[decision.brokerage, decision.jeditaskid][chunk] = None

    def at(self, brokerage: str, chunk: Chunk, moment: datetime) -> DecisionInForce:
        """Return the last decision about a chunk that was made by ``moment``.

        The memory of a file may have changed since: if the task has only one chunk of the dataset, that one is used.
        """
        decisions = self.of_chunk(brokerage, chunk)
        count = bisect_right(decisions, moment, key=lambda one: one.origin.decided_at)
        if not count:
            return DecisionInForce(None, NO_DECISION)
        last = decisions[count - 1]
        seen = min(last.last_seen_at or last.origin.decided_at, moment)
        return DecisionInForce(None, TOO_OLD) if moment - seen > self._max_age else DecisionInForce(last)

    def of_chunk(self, brokerage: str, chunk: Chunk) -> list[StoredDecision]:
        """Return all decisions about a chunk, oldest first; by dataset if the task has only one chunk of it."""
        known, (task, dataset, _) = self._decisions[brokerage], chunk
        if chunk not in known:
            others = [other for other in self._chunks[brokerage, task] if other[1] == dataset]
            if len(others) != 1:
                return []
            chunk = others[0]
        return known[chunk]

    def of_task(self, brokerage: str, task: int, moment: datetime) -> list[DecisionInForce]:
        """Return the decision in force for each chunk of a task."""
        return [self.at(brokerage, chunk, moment) for chunk in self._chunks[brokerage, task]]


def refusal(decision: Decision, queue: str) -> str | None:
    """Return the code for which ours would not have placed a chunk at a queue; None if it would have. Pure."""
    chosen = {candidate.name for candidate in decision.candidates}
    names = chosen | {unified_of(name) for name in chosen}
    is_candidate = queue in names
    if decision.outcome == "brokered" and is_candidate:
        return None
    code = None if is_candidate else _rejection(decision.rejected, queue)
    return code or decision.reason or NOT_A_CANDIDATE


def _rejection(rejected: Mapping[str, str], queue: str) -> str | None:
    """The code of a queue; if its pseudo-queues were rejected one by one, that of the last of them."""
    if queue in rejected:
        return rejected[queue]
    own = [code for name, code in rejected.items() if unified_of(name) == unified_of(queue)]
    return own[-1] if own else None


def criterion(dialog: str) -> str:
    """The last criterion that PanDA's dialog names. Pure."""
    criteria = _CRITERIA.findall(dialog)
    return criteria[-1] if criteria else NOT_SAID


def chances(decision: Decision) -> dict[str, float]:
    """Return the chance of each unified queue that ours draws it, by weight; none if ours did not broker. Pure.

    Queues that are to get their first jobs share equally, and come before all others.
    """
    if decision.outcome != "brokered" or not decision.candidates:
        return {}
    first = [candidate for candidate in decision.candidates if candidate.bootstrap]
    total = sum(candidate.weight for candidate in decision.candidates)
    equal = bool(first) or not total > 0
    eligible = first or list(decision.candidates)
    by_queue: dict[str, float] = defaultdict(float)
    for candidate in eligible:
        by_queue[unified_of(candidate.name)] += 1 / len(eligible) if equal else candidate.weight / total
    return dict(by_queue)

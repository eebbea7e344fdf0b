"""Decisions of ours in force when JEDI placed something, and what each says about the place. Pure."""

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

#: Reasons for which something is not compared.
NO_DECISION, TOO_OLD, NO_DATASET = "no_decision", "too_old", "no_dataset"
#: Codes of disagreements that no rule made.
NOT_A_CANDIDATE, NOT_SAID = "not_a_candidate", "not_said"
_CRITERIA = re.compile(r"criteria=-(\w+)")


@dataclass(frozen=True)
class Found:
    """The decision in force about a chunk at an instant, or why there is none to compare with."""

    stored: StoredDecision | None
    reason: str = ""

    @property
    def decision(self) -> Decision | None:
        """The decision of the broker."""
        return None if self.stored is None else self.stored.record.decision


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
        made = self.of_chunk(brokerage, chunk)
        place = bisect_right(made, moment, key=lambda one: one.origin.decided_at)
        if not place:
            return Found(None, NO_DECISION)
        last = made[place - 1]
        seen = min(last.last_seen_at or last.origin.decided_at, moment)
        return Found(None, TOO_OLD) if moment - seen > self._max_age else Found(last)

    def of_chunk(self, brokerage: str, chunk: Chunk) -> list[StoredDecision]:
        """All decisions about a chunk, oldest first; by dataset where the task has one chunk of it only."""
        known, (task, dataset, _) = self._of[brokerage], chunk
        if chunk not in known:
            others = [one for one in self._chunks[brokerage, task] if one[1] == dataset]
            if len(others) != 1:
                return []
            chunk = others[0]
        return known[chunk]

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


def chances(decision: Decision) -> dict[str, float]:
    """By unified queue the chance that ours draws it, by weight; none where it did not broker. Pure.

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
        found[unified_of(one.name)] += 1 / len(some) if equal else one.weight / total
    return dict(found)

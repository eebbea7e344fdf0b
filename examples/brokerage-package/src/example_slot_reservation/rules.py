"""The rules of the brokerage, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from broker.domain.arrays import Bools, Floats
from broker.domain.decisions import Observation
from broker.domain.queues import UnifiedTable
from broker.engine.shared.chain import RuleChain
from broker.rules.contract import AnyPairs, Filter, Pairs, Reason, Rule, Weight
from example_slot_reservation.requests import RequestTable

NAME = "slot_reservation"


@dataclass(frozen=True)
class SlotFacts:
    """What the rules need of requests (T) and queues (U) beside their columns.

    Attributes:
        initial: (T, U) queues for which slots were published at all.
        free_slots: (1, U) published slots less those that the cycle has reserved.
        longest_s: (1, U) longest walltime that a queue takes; infinite without a limit.
    """

    initial: Bools
    free_slots: Floats
    longest_s: Floats


@dataclass(frozen=True)
class SlotPairs(Pairs[RequestTable, UnifiedTable, SlotFacts]):
    """Requests against queues."""

    facts: SlotFacts


class _Ours(Rule):
    """What the rules have in common."""

    provenance = "Example collaboration"


class Online(_Ours, Filter[SlotPairs]):
    """Only queues that are online."""

    name = "online"
    reason = Reason(
        code="not_online",
        title="The queue is online",
        violation="The queue is not online",
        no_candidate="is online",
        who="ask",
        cure="The site brings the queue back online.",
    )
    kind, sources = "temporary", ("queues",)

    def keep(self, pairs: SlotPairs) -> Bools:
        """(1, U)."""
        return np.asarray(pairs.candidates.status == "online", dtype=np.bool_)

    def observe(self, pairs: SlotPairs) -> Observation:
        """The status."""
        return Observation(pairs.candidates.status.item(), "==", "online", "-", "queue.status")


class LongEnough(_Ours, Filter[SlotPairs]):
    """The queue lets jobs run for as long as the request asks for."""

    name = "long_enough"
    reason = Reason(
        code="too_long",
        title="The walltime of the request fits the queue",
        violation="The request asks for a longer walltime than the queue allows",
        no_candidate="allows so long a walltime",
        who="you",
        cure="Ask for a shorter walltime.",
    )
    sources = ("queues",)

    def keep(self, pairs: SlotPairs) -> Bools:
        """(T, U)."""
        return np.asarray(pairs.chunks.walltime_s <= pairs.facts.longest_s)

    def observe(self, pairs: SlotPairs) -> Observation:
        """The walltime of the request against the limit of the queue."""
        facts = pairs.facts
        return Observation(
            float(pairs.chunks.walltime_s.item()), "<=", float(facts.longest_s.item()), "s", "queue.maxtime"
        )


class EnoughSlots(_Ours, Filter[SlotPairs]):
    """The slots that are still free hold the whole request."""

    name = "enough_slots"
    reason = Reason(
        code="too_few_slots",
        title="Enough of the published slots are free",
        violation="Fewer slots are free than the request asks for",
        no_candidate="has so many free slots",
        who="wait",
        cure="Wait until slots are free, or ask for fewer.",
    )
    kind, sources = "temporary", ("slots",)

    def keep(self, pairs: SlotPairs) -> Bools:
        """(T, U)."""
        return np.asarray(pairs.chunks.slots <= pairs.facts.free_slots)

    def observe(self, pairs: SlotPairs) -> Observation:
        """The slots of the request against those that are free."""
        facts = pairs.facts
        return Observation(
            float(pairs.chunks.slots.item()), "<=", float(facts.free_slots.item()), "slots", "harvester_slots.numslots"
        )


class BestFit(_Ours, Weight[SlotPairs]):
    """The part of the free slots that the request takes, so that large allocations stay whole for large requests."""

    name, code, title = "best_fit", "best_fit", "Prefers the queue that the request fills most"
    sources = ("slots",)

    def factor(self, pairs: SlotPairs) -> Floats:
        """(T, U); 0 where nothing is free."""
        free = pairs.facts.free_slots
        return np.where(free > 0, pairs.chunks.slots / np.maximum(free, 1.0), 0.0)


@dataclass(frozen=True)
class SlotChain(RuleChain):
    """The rules of the brokerage."""

    kinds = {"filters": (Filter,), "weights": (Weight,)}  # noqa: RUF012 - a class variable of RuleList
    judges: ClassVar[type[AnyPairs]] = SlotPairs

    filters: tuple[Filter[SlotPairs], ...]
    weights: tuple[Weight[SlotPairs], ...]


def chain() -> SlotChain:
    """The ordered rules as shipped."""
    return SlotChain(NAME, (Online(), LongEnough(), EnoughSlots()), (BestFit(),))

"""How many parts of an agent's work one broker leads, so that all brokers have about the same. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from broker.domain.parts import led_by


def brokers_beside(lease: str, own: str, divisions: Mapping[str, Mapping[str, int]]) -> int:
    """The other brokers that are alive and divide the agent of a lease in the same way.

    Args:
        lease: of a part.
        own: the name of this broker.
        divisions: for each broker that is alive, into how many parts it divides which agents.
    """
    agent, part = led_by(lease)
    return sum(holder != own and parts.get(agent) == part.of for holder, parts in divisions.items())


def fair_number(lease: str, others: int) -> int:
    """How many parts of the agent of a lease one broker leads while ``others`` are alive beside it."""
    return math.ceil(led_by(lease)[1].of / (others + 1))


def may_take(held: int, fair: int, free_for_s: float, patience_s: float) -> bool:
    """Whether a broker takes one more part: one of its fair number at once, others when nobody took them for a while.

    Args:
        held: parts that it leads now.
        fair: its fair number.
        free_for_s: since when the lease has been free.
        patience_s: for so long it is left to the others.
    """
    return held < fair or free_for_s >= patience_s

"""One line of the checklist of what must exist before anything can be brokered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Check:
    """One line of the list.

    Attributes:
        topic: ``vo``, ``shares``, ``sources``, ``resource_types``, ``queues``, ``endpoints``, ``nuclei`` or ``pilots``.
        level: ``problem``: nothing can be brokered until it is fixed; ``note``: some of it cannot be used.
        usable: number that can be used; null if nothing is counted.
        of: total number.
        finding: finding in a phrase.
        remedy: what to do; empty if there is nothing.
        why_not: why each of the others cannot be used, by name.
    """

    topic: str
    level: Level
    usable: int | None
    of: int | None
    finding: str
    remedy: str
    why_not: Mapping[str, str]

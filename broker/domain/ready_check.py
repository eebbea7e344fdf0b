"""One line of the list of what must be there before anything can be brokered."""

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
        level: ``problem``: nothing can be brokered before it is mended; ``note``: some of it cannot be used.
        usable: so many can be used; None where nothing is counted.
        of: of so many.
        finding: in a phrase.
        remedy: what to do; empty where there is nothing.
        why_not: why each of the others cannot be used, by name.
    """

    topic: str
    level: Level
    usable: int | None
    of: int | None
    finding: str
    remedy: str
    why_not: Mapping[str, str]

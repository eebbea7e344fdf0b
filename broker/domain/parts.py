"""Parts of the work of one agent, shared by several brokers: the keys of a part, and the name of its lease."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

MARK = "#"
"""Separates the name of an agent from its part in the name of a lease."""
_NAME = re.compile(rf"(?P<agent>[^{MARK}]+){MARK}(?P<number>[1-9][0-9]*)/(?P<of>[1-9][0-9]*)")


@dataclass(frozen=True, order=True)
class Part:
    """One part of the keys of an agent's work.

    Attributes:
        number: number of the part, from 1.
        of: number of parts; 1 if the work is not divided.
    """

    number: int
    of: int

    def __post_init__(self) -> None:
        """Refuse invalid numbers.

        Raises:
            ValueError: the number is not between 1 and the number of parts.
        """
        if not 1 <= self.number <= self.of:
            raise ValueError(f"part {self.number} of {self.of}")

    def __str__(self) -> str:
        """The part as in the name of its lease, such as ``1/2``."""
        return f"{self.number}/{self.of}"

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the work."""
        return self.of == 1

    def takes(self, key: str) -> bool:
        """Whether work with this key belongs to the part; each key belongs to exactly one part of a division."""
        return self.is_whole or number_of(key, self.of) == self.number

    def lease_of(self, agent: str) -> str:
        """The name of the lease under which an agent does this part: ``production_job``, or ``production_job#1/2``."""
        return agent if self.is_whole else f"{agent}{MARK}{self}"


WHOLE = Part(1, 1)


def parts_of(number: int) -> tuple[Part, ...]:
    """All parts of a division."""
    return tuple(Part(index, number) for index in range(1, number + 1))


def number_of(key: str, parts: int) -> int:
    """The number of the part, from 1, to which a key belongs; stable across machines and time."""
    digest = hashlib.sha256(key.encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8]) % parts + 1


def led_by(lease: str) -> tuple[str, Part]:
    """The agent and part of a lease; a name without a part is that of an agent with undivided work."""
    match = _NAME.fullmatch(lease)
    if match is None or int(match["number"]) > int(match["of"]):
        return lease, WHOLE
    return match["agent"], Part(int(match["number"]), int(match["of"]))


def division_of(lease: str) -> tuple[str, ...]:
    """The names of all leases in the division of a lease; any brokers may hold them at once."""
    agent, part = led_by(lease)
    return tuple(sibling.lease_of(agent) for sibling in parts_of(part.of))

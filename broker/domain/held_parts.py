"""Which parts of the files of an input a partial replica holds, where replicas hold different files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class HeldParts:
    """The parts that a replica holds: each has the files that the same replicas of the input hold.

    So the parts of an input have no file in common, and what several replicas hold together is the sum over the parts
    that any of them holds.

    Attributes:
        parts: for each its number in the input, its files and its bytes.
    """

    parts: tuple[tuple[int, float, float], ...]

    def stored(self) -> list[list[float]]:
        """The parts as JSON, as stored with a decision."""
        return [list(part) for part in self.parts]

    @classmethod
    def of_stored(cls, value: Any) -> HeldParts:
        """Read the JSON of :meth:`stored`.

        Raises:
            ValueError: it is nothing of the kind.
        """
        return cls(tuple((int(part), float(files), float(size)) for part, files, size in value))

"""From which queues jobs of a chunk's dataset were taken for another brokerage, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RebrokeredFrom:
    """Queues with the time (s since 1970) of the last rebrokerage from them, by name."""

    at_s: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, queues: Mapping[str, float]) -> RebrokeredFrom | None:
        """The queues of a mapping to times; None for none."""
        return cls(tuple(sorted(queues.items()))) if queues else None

    def since(self, instant_s: float) -> list[str]:
        """The queues from which jobs were taken after an instant."""
        return [queue for queue, at_s in self.at_s if at_s > instant_s]

    def last_s(self, queue: str) -> float | None:
        """When jobs were last taken from a queue; None if never."""
        return dict(self.at_s).get(queue)

    def stored(self) -> dict[str, float]:
        """The queues as JSON, as stored with a decision."""
        return dict(self.at_s)

    @classmethod
    def of_stored(cls, value: Any) -> RebrokeredFrom | None:
        """Read the JSON of :meth:`stored`, or lines of time and name in work of older engines.

        Raises:
            ValueError: it is nothing of the kind.
        """
        if not isinstance(value, str):
            return cls.of({str(queue): float(at_s) for queue, at_s in value.items()})
        lines = (line.split(" ", 1) for line in value.split("\n") if line)
        return cls.of({queue: float(at_s) for at_s, queue in lines})

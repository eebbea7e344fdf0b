"""From which queues jobs of a chunk's dataset were taken back, as one text: a line of time and name for each queue."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache


def format_taken_back(queues: Mapping[str, float]) -> str | None:
    """The text for queues and the times (s since 1970) of the last taking; ``None`` for none."""
    return "\n".join(f"{at_s!r} {queue}" for queue, at_s in sorted(queues.items())) or None


@lru_cache(maxsize=4096)
def parse_taken_back(text: str | None) -> Mapping[str, float]:
    """Queue to time, as given to :func:`format_taken_back`."""
    lines = (line.split(" ", 1) for line in (text or "").split("\n") if line)
    return {queue: float(at_s) for at_s, queue in lines}

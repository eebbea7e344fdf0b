"""What was decided about each queue or nucleus in the last day, by the counts that the cycles write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from broker.brokerages.registry import brokerage as brokerage_of
from broker.domain.queue_counts import CANDIDATE, QueueCount
from broker.store.query_context import Asking
from broker.store.summaries.queue_counts import queue_totals
from broker.store.summaries.reason_counts import reason_counts

#: Decisions of so long are counted.
COUNTED = timedelta(hours=24)
_NOW = timedelta(seconds=1)
_TOTALS = "totals of the day"


@dataclass
class DayCount:
    """The decisions about one queue or nucleus.

    Attributes:
        chosen: in so many it was among the candidates.
        placed: jobs that it got; of a nucleus, tasks.
        rejected: by code, in so many it was rejected.
    """

    chosen: int = 0
    placed: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    @property
    def considered(self) -> int:
        """Decisions in which it was chosen or rejected by a rule."""
        return self.chosen + self.rejected.total()

    @property
    def main_code(self) -> str | None:
        """The code that rejected it most often; None where none did."""
        return min(self.rejected, key=lambda code: (-self.rejected[code], code), default=None)


def totals_of_the_day(asking: Asking, queue: str | None = None) -> dict[str, list[QueueCount]]:
    """How often each queue or nucleus, or one of them, was chosen and rejected in the last day, by brokerage."""
    if queue is not None:
        return queue_totals(asking.connection, asking.now - COUNTED, asking.now + _NOW, queue=queue)
    if _TOTALS not in asking.kept:
        asking.kept[_TOTALS] = queue_totals(asking.connection, asking.now - COUNTED, asking.now + _NOW)
    found: dict[str, list[QueueCount]] = asking.kept[_TOTALS]
    return found


def totals_about(asking: Asking, candidate: str, queue: str | None = None) -> dict[str, list[QueueCount]]:
    """The same of the brokerages whose candidates are of this kind: ``queue`` or ``nucleus``."""
    found = totals_of_the_day(asking, queue)
    return {name: some for name, some in found.items() if brokerage_of(name).candidate == candidate}


def day_counts(counts: Iterable[QueueCount]) -> dict[str, DayCount]:
    """The counts by queue or nucleus. Pure."""
    found: dict[str, DayCount] = {}
    for one in counts:
        of_queue = found.setdefault(one.queue, DayCount())
        if one.code == CANDIDATE:
            of_queue.chosen += one.decisions
            of_queue.placed += one.jobs
        else:
            of_queue.rejected[one.code] += one.decisions
    return found


def decisions_of_the_day(asking: Asking) -> Counter[str]:
    """How many decisions each brokerage made in the last day."""
    found: Counter[str] = Counter()
    for one in reason_counts(asking.connection, asking.now - COUNTED, asking.now + _NOW):
        found[one.brokerage] += one.decisions
    return found

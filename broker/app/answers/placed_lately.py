"""Where jobs went in the last hour, as the cycles counted them."""

from __future__ import annotations

from datetime import datetime, timedelta

from broker.app.answers.asking import Answer, Asking
from broker.app.answers.day_counts import day_counts
from broker.brokerages.registry import brokerage as brokerage_of
from broker.store.summaries.queue_counts import queue_totals

LATELY = timedelta(hours=1)
_NOW = timedelta(seconds=1)


class Placed(Answer):
    """The jobs that each queue got since ``since``, by name; queues that got none are not there."""

    now: datetime
    since: datetime
    jobs: dict[str, int]


def placed_lately(asking: Asking) -> Placed:
    """The jobs that each queue got in the last hour, of all brokerages of jobs."""
    since = asking.now - LATELY
    totals = queue_totals(asking.connection, since, asking.now + _NOW)
    found = day_counts(one for name, some in totals.items() if brokerage_of(name).candidate == "queue" for one in some)
    return Placed(
        now=asking.now, since=since, jobs={name: one.placed for name, one in sorted(found.items()) if one.placed}
    )

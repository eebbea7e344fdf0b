"""The places of queues on the map, by tier and cloud, and where jobs went in the last hour."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from broker.brokerages.registry import brokerage as brokerage_of
from broker.grid.answers.day_counts import day_counts
from broker.store.classes.queue_waits import read_queue_rows
from broker.store.query_context import Answer, Asking
from broker.store.summaries.queue_counts import queue_totals


class Places(Answer):
    """Tier and cloud of each queue, by name; empty where CRIC says none."""

    tier: dict[str, str]
    cloud: dict[str, str]


def places(asking: Asking) -> Places:
    """Tier and cloud of the queues on record."""
    tier, cloud = {}, {}
    for row in read_queue_rows(asking.connection, asking.catalogue):
        document = json_document(row["data"])
        name = str(row["panda_queue"])
        tier[name], cloud[name] = str(document.get("tier") or ""), str(document.get("cloud") or "")
    return Places(tier=tier, cloud=cloud)


def json_document(text: str | None) -> dict[str, object]:
    """The object of a column with a document; empty where it holds none."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


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

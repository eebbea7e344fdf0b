"""Where queues stand: tier and cloud, for the map."""

from __future__ import annotations

import json

from broker.app.answers.asking import Answer, Asking
from broker.store.classes.queue_waits import read_queue_rows


class Places(Answer):
    """Tier and cloud of each queue, by name; empty where CRIC says none."""

    tier: dict[str, str]
    cloud: dict[str, str]


def places(asking: Asking) -> Places:
    """Tier and cloud of the queues on record."""
    tier, cloud = {}, {}
    for row in read_queue_rows(asking.connection, asking.catalogue):
        document = _object(row["data"])
        name = str(row["panda_queue"])
        tier[name], cloud[name] = str(document.get("tier") or ""), str(document.get("cloud") or "")
    return Places(tier=tier, cloud=cloud)


def _object(text: str | None) -> dict[str, object]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

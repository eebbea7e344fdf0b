"""Which PanDA queue a queue of the grid belongs to, and resources made from the queues of PanDA.

A pilot that runs in Site/CE/queue serves the PanDA queue that the parameter ``PandaQueue`` names; without one, the
PanDA queue of the same name. Many queues of the grid may belong to one PanDA queue. Source: this broker; DIRAC RFC 7
knows no PanDA queues.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from broker.pools.model.resources import QueueName, Resources

PARAMETER = "PandaQueue"
TAG = "Tag"

#: Parameters of a PanDA queue, with the key of its configuration that each is read from.
FIGURES = {
    "Memory": "maxrss",
    "Cores": "corecount",
    "Disk": "maxwdir",
    "WallTime": "maxtime",
    "CorePower": "corepower",
    "Capability": "capability",
    "Region": "region",
    "Tier": "tier",
}


def panda_queues(resources: Resources) -> dict[QueueName, str | None]:
    """For each queue the PanDA queue that it names for every VO; None if it names none or several."""
    named: dict[QueueName, str | None] = {}
    for queue in resources.effective(""):
        value = queue.parameters.get(PARAMETER)
        named[queue.name] = value if isinstance(value, str) else None
    return named


def tags_of_places(resources: Resources) -> dict[QueueName, tuple[str, ...]]:
    """For each queue the tags that are declared for it for every VO, sorted."""
    tags: dict[QueueName, tuple[str, ...]] = {}
    for queue in resources.effective(""):
        value = queue.parameters.get(TAG, ())
        tags[queue.name] = tuple(sorted({value} if isinstance(value, str) else {str(tag) for tag in value}))
    return tags


def document_of(queues: Iterable[tuple[str, str | None, Mapping[str, Any]]]) -> str:
    """Resources, as JSON, made from PanDA's queues: (name, site, configuration).

    Each queue is listed at its site, with one CE and queue for every entry of ``queues`` in its configuration, or with
    one of its own name. Its parameters are the figures of the configuration and the entries of its ``params``.
    """
    sites: dict[str, Any] = {}
    for name, site, data in queues:
        parameters = _parameters(data) | {PARAMETER: name}
        ces = sites.setdefault(_plain(site or name), {"ces": {}})["ces"]
        for ce, queue in sorted(_places(name, data)):
            ces.setdefault(_plain(ce), {"queues": {}})["queues"][_plain(queue)] = {"params": parameters}
    return json.dumps({"resources": sites}, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def _parameters(data: Mapping[str, Any]) -> dict[str, Any]:
    free = data.get("params")
    parameters = dict(free) if isinstance(free, dict) else {}
    stats = {parameter: data.get(key) for parameter, key in FIGURES.items()}
    return {key: _value(value) for key, value in (parameters | stats).items() if _value(value) not in (None, "", [])}


def _value(value: Any) -> Any:
    """A text or a list of texts; None for values that no job can require."""
    if isinstance(value, list):
        return [str(one) for one in value if isinstance(one, str | int | float)]
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None


def _places(name: str, data: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The CEs and queues that the configuration names; an entry without a name uses that of the PanDA queue."""
    entries = data.get("queues")
    places = set()
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            ce = entry.get("ce_name") or entry.get("ce_endpoint") or name
            places.add((str(ce), str(entry.get("ce_queue_name") or name)))
    return places or {(name, name)}


def _plain(name: str) -> str:
    return name.replace("/", "_")

"""Nodes that pilots presented: collected in memory, written in parts each minute, and read for waiting jobs.

Source: DiracX, why a job is not matched; PanDA data model, worker nodes.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Literal

import psycopg
from psycopg.rows import tuple_row

from broker.domain.instants import naive
from broker.matching.specs.hardware_names import level_of_name, same_architecture
from broker.matching.specs.node import Node
from broker.pilots.model.matcher import Pilot
from broker.store.connection.tables import Names

WRITTEN_EVERY = timedelta(seconds=60)
MOST_NOTED = 4_000
"""Most nodes and tags noted between two writes; others are left out and come the next time.

More would say nothing new about a day."""
MOST_A_PART = 50
"""Nodes written at a time: writing all that were noted would take 0.8 s, in which pilots wait for the interpreter."""
MOST_READ = 50_000
_ROOM = ("ram_mb", "wall_time_s", "cpu_work_db12", "scratch_mb")
"""Fields that differ from request to request; nodes count as one where the first two digits are the same."""
_SETS = ("features", "tags")
_MB_OF_GB = 1000
_COMPARED_FIELDS = tuple(one.name for one in fields(Node) if one.compare)

_WRITE = """
INSERT INTO broker.presented_nodes AS known (hour, site, ce, queue, signature, node, room, requests, last_seen_at)
SELECT hour, site, ce, queue, signature, node::jsonb, room::bigint[], requests, last_seen_at
FROM unnest(%(hours)s::timestamptz[], %(sites)s::text[], %(ces)s::text[], %(queues)s::text[], %(signatures)s::text[],
    %(nodes)s::text[], %(rooms)s::text[], %(requests)s::bigint[], %(times)s::timestamptz[])
    AS given (hour, site, ce, queue, signature, node, room, requests, last_seen_at)
ORDER BY 1, 2, 3, 4, 5
ON CONFLICT (hour, site, ce, queue, signature) DO UPDATE
SET requests = known.requests + excluded.requests, last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at),
    node = CASE WHEN excluded.room > known.room THEN excluded.node ELSE known.node END,
    room = greatest(known.room, excluded.room)"""
_WRITE_TAGS = """
INSERT INTO broker.presented_tags AS known (tag, first_seen_at, last_seen_at)
SELECT tag, %(now)s, %(now)s FROM unnest(%(tags)s::text[]) AS given (tag) ORDER BY tag
ON CONFLICT (tag) DO UPDATE SET last_seen_at = excluded.last_seen_at
WHERE known.last_seen_at < excluded.last_seen_at - interval '1 hour'"""
_READ = """
SELECT seen.site, coalesce(place.panda_queue, seen.queue), seen.node, seen.requests, seen.last_seen_at,
    coalesce(place.tags, '[]'), place.number
FROM (SELECT site, ce, queue, (array_agg(node ORDER BY room DESC))[1] AS node, sum(requests)::bigint AS requests,
          max(last_seen_at) AS last_seen_at
      FROM broker.presented_nodes WHERE last_seen_at > %(since)s AND hour > %(since)s - interval '1 hour'
      GROUP BY site, ce, queue, signature ORDER BY 6 DESC LIMIT %(most)s) AS seen
LEFT JOIN broker.resource_queues AS place USING (site, ce, queue)"""
# Whole hosts, as pilots of PanDA reported them, at sites where no pilot presented a node.
_READ_HOSTS = """
SELECT node.site, host.panda_queue, node.cpu_architecture, node.cpu_architecture_level, node.n_logical_cpus,
    node.total_memory, node.total_local_disk, coalesce(gpu.gpus, 0), gpu.vendor, gpu.vram, count(*),
    max(node.last_seen) AT TIME ZONE 'UTC'
FROM {panda}.worker_node AS node
LEFT JOIN {panda}.worker_node_queue AS host USING (site, host_name)
LEFT JOIN LATERAL (
    SELECT sum(count)::bigint AS gpus, CASE WHEN count(*) = 1 THEN min(vendor) END AS vendor,
        CASE WHEN count(*) = 1 THEN min(vram)::bigint END AS vram
    FROM {panda}.worker_node_gpus AS one WHERE one.site = node.site AND one.host_name = node.host_name) AS gpu ON true
WHERE node.last_seen > %(since)s AND node.site <> ALL(%(told)s)
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ORDER BY count(*) DESC LIMIT %(most)s"""
_READ_TAGS = """
SELECT tag FROM broker.presented_tags WHERE tag = ANY(%(tags)s)
UNION SELECT tag FROM broker.resource_queues, jsonb_array_elements_text(tags) AS declared (tag)
WHERE tag = ANY(%(tags)s)"""


@dataclass(frozen=True)
class SeenNode:
    """Nodes that are alike at one place.

    Attributes:
        site: site of the place.
        panda_queue: PanDA queue of the place; None: not known.
        node: the one with most room, with the tags of its place.
        seen: number of requests of such nodes, or of such hosts.
        last_seen_at: time of the last of them (aware).
        place: number of the place among the resources; None: it is none of them.
        kind: whether pilots presented the nodes, or whole hosts were reported.
    """

    site: str
    panda_queue: str | None
    node: Node
    seen: int
    last_seen_at: datetime
    place: int | None = None
    kind: Literal["pilots", "hosts"] = "pilots"


@dataclass
class _Noted:
    count: int
    last: datetime


@dataclass(frozen=True)
class NodeRows:
    """Rows to write: values of the columns, and the tags that nodes presented."""

    columns: dict[str, list[Any]]
    tags: list[str]
    now: datetime


_NodeAtPlace = tuple[str, str, str, Node]
"""Site, computing element, queue, node."""


class NodeNotes:
    """The nodes of pilots that asked a process for jobs; threads share it."""

    def __init__(self) -> None:
        self._noted: dict[_NodeAtPlace, _Noted] = {}
        self._to_write: dict[_NodeAtPlace, _Noted] = {}
        self._latest = self._written_at = datetime.min.replace(tzinfo=UTC)
        self._lock = threading.Lock()

    def note(self, pilot: Pilot, now: datetime) -> None:
        """Record that a pilot asked at ``now`` (aware); without a node it counts as one of which nothing is known."""
        key = pilot.site, pilot.ce, pilot.queue, pilot.node or Node(pilot.site)
        with self._lock:
            self._latest = max(self._latest, now)
            known = self._noted.get(key)
            if known is not None:
                known.count, known.last = known.count + 1, now
            elif len(self._noted) < MOST_NOTED:
                self._noted[key] = _Noted(1, now)

    def due(self) -> NodeRows | None:
        """The next part of what was noted until the last full minute; None: it is not due yet, or nothing is left."""
        with self._lock:
            if not self._to_write and self._latest - self._written_at >= WRITTEN_EVERY:
                self._to_write, self._noted, self._written_at = self._noted, {}, self._latest
            part = {key: self._to_write.pop(key) for key in list(islice(self._to_write, MOST_A_PART))}
        return _rows(part, self._written_at) if part else None


def write_nodes(connection: psycopg.Connection[Any], rows: NodeRows) -> None:
    """Add what a process noted to the stored nodes."""
    connection.execute(_WRITE, rows.columns)
    if rows.tags:
        connection.execute(_WRITE_TAGS, {"tags": rows.tags, "now": rows.now})


def note_pilot(connection: psycopg.Connection[Any], pilot: Pilot, now: datetime) -> None:
    """Record that one pilot asked at ``now`` (aware)."""
    notes = NodeNotes()
    notes.note(pilot, now)
    rows = notes.due()
    if rows is not None:
        write_nodes(connection, rows)


def read_seen(connection: psycopg.Connection[Any], names: Names, since: datetime) -> list[SeenNode]:
    """The nodes that were seen since an instant (aware), those of the latest requests first, and hosts elsewhere."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(_READ, {"since": since, "most": MOST_READ}).fetchall()
        nodes = [
            SeenNode(site, queue, _node(node, tags), requests, at, place)
            for site, queue, node, requests, at, tags, place in rows
        ]
        known_sites = sorted({node.site for node in nodes})
        values = {"since": naive(since), "told": known_sites, "most": MOST_READ}
        hosts = cursor.execute(names.sql(_READ_HOSTS), values).fetchall()
    return nodes + [_host(*row) for row in hosts]


def known_tags(connection: psycopg.Connection[Any], tags: Sequence[str]) -> frozenset[str]:
    """The tags among these that any node ever presented, or that are declared for a place."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        return frozenset(tag for (tag,) in cursor.execute(_READ_TAGS, {"tags": list(tags)}))


def _rows(noted: dict[_NodeAtPlace, _Noted], now: datetime) -> NodeRows:
    merged: dict[tuple[Any, ...], tuple[list[int], dict[str, Any], _Noted]] = {}
    for (site, ce, queue, node), one in noted.items():
        document = _document(node)
        alike = document | {name: _first_digits(document[name]) for name in _ROOM if name in document}
        signature = hashlib.blake2b(_text(alike).encode(), digest_size=16).hexdigest()
        key = one.last.astimezone(UTC).replace(minute=0, second=0, microsecond=0), site, ce, queue, signature
        room = [document.get(name, -1) for name in _ROOM]
        best, best_document, sum_of = merged.get(key, (room, document, _Noted(0, one.last)))
        sum_of = _Noted(sum_of.count + one.count, max(sum_of.last, one.last))
        merged[key] = (max(room, best), document if room > best else best_document, sum_of)
    keys, values = list(merged), list(merged.values())
    columns: dict[str, list[Any]] = {
        name: [key[at] for key in keys] for at, name in enumerate(("hours", "sites", "ces", "queues", "signatures"))
    }
    columns |= {
        "nodes": [_text(document) for _, document, _ in values],
        "rooms": ["{" + ",".join(map(str, room)) + "}" for room, _, _ in values],
        "requests": [one.count for _, _, one in values],
        "times": [one.last for _, _, one in values],
    }
    tags = sorted({_plain(tag) for tag in {tag for _, _, _, node in noted for tag in node.tags}})
    return NodeRows(columns, tags[:MOST_NOTED], now)


def _first_digits(number: int) -> int:
    scale: int = 10 ** max(0, len(str(number)) - 2)
    return number // scale * scale


def _document(node: Node) -> dict[str, Any]:
    """The node as a JSON document, without the fields that are not known and without the name of the pilot."""
    values = {name: getattr(node, name) for name in _COMPARED_FIELDS}
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    """A value as the database stores it: texts without unprintable characters, some of which the database refuses."""
    if isinstance(value, frozenset):
        return sorted(map(_plain, value))
    return "".join(filter(str.isprintable, value)) if isinstance(value, str) and not value.isprintable() else value


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _node(document: dict[str, Any], tags_of_place: Sequence[str]) -> Node:
    known = {one.name for one in fields(Node)}
    values = {name: value for name, value in document.items() if name in known}
    values |= {name: frozenset(values[name]) for name in _SETS if name in values}
    values["tags"] = values.get("tags", frozenset()) | frozenset(tags_of_place)
    return Node(**values)


def _host(
    site: str, queue: str | None, architecture: str | None, level: str | None, cpus: int | None, memory: int | None,
    disk: int | None, gpus: int, vendor: str | None, vram: int | None, hosts: int, at: datetime,
) -> SeenNode:  # fmt: skip
    node = Node(
        site, cores=cpus, ram_mb=memory, architecture=same_architecture(architecture),
        level=level_of_name((level or "").replace("_", "-", 1)), gpus=gpus, gpu_vendor=vendor, gpu_ram_mb=vram,
        scratch_mb=None if disk is None else disk * _MB_OF_GB,
    )  # fmt: skip
    return SeenNode(site, queue, node, hosts, at, None, "hosts")

"""The source ``software``: published tags; values of the wrong type are dropped and reported."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from broker.domain.queues import (
    EXCLUSIVE,
    ContainerSources,
    Hardware,
    HardwareEntry,
    QueueSoftware,
    tag_key,
)
from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import MAX_NAME_CHARACTERS, BadValueError, RawSource, json_object
from broker.snapshot.source import SourceLimit, TableRead
from broker.snapshot.sources.queues import QUEUES

#: The pseudo-queue with the union of all queues, used to resolve container names.
ALL_QUEUES = "ALL"
#: Most faults reported for one queue; further ones are of the same kind.
MAX_REPORTED = 5
#: Most documents kept between readings, by digest, since published tags seldom change.
MAX_REMEMBERED = 2048

#: The tags, and the faults in them: kind and place of each.
Tags = tuple[QueueSoftware, tuple[tuple[str, str], ...]]
_remembered: dict[str, Tags] = {}


@dataclass(frozen=True)
class PublishedSoftware:
    """The tags of each unified queue (U), None without any, and the container sources of all queues."""

    of_queues: tuple[QueueSoftware | None, ...]
    container_sources: ContainerSources


class Software(GridSource[PublishedSoftware]):
    """Source of the software tags that queues publish."""

    name = "software"
    reads = (TableRead("sw_tags", ("panda_queue", "data", "last_update"), ("data",), "last_update"),)
    limit = SourceLimit(max_age_s=86_400.0, max_shrink=0.5)

    def build(self, raw: RawSource, draft: Draft) -> PublishedSoftware:
        """Build the software of known queues."""
        return PublishedSoftware(*build_software(raw, draft.of(QUEUES).rows, draft.dropped_rows))


SOFTWARE = Software()


def digest_of(text: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def build_software(
    source: RawSource, unified: dict[str, int], dropped_rows: list[DroppedRow]
) -> tuple[tuple[QueueSoftware | None, ...], ContainerSources]:
    """The tags of each unified queue (None without any), and the sources of containers published for all queues."""
    of_queues: list[QueueSoftware | None] = [None] * len(unified)
    sources = ContainerSources()
    for row in source.rows("sw_tags").records():
        name, text = row["panda_queue"], row["data"]
        if name == ALL_QUEUES:
            sources = read_sources(text, dropped_rows)
        elif name in unified:
            software, faults = read_software(text)
            of_queues[unified[name]] = software
            dropped_rows.extend(DroppedRow("software", str(name)[:80], code, fault) for code, fault in faults)
    return tuple(of_queues), sources


def read_software(text: Any) -> Tags:
    """Parse the tags of a document, and list its faults."""
    if not isinstance(text, str):
        return _parsed(text, "")
    digest = digest_of(text)
    known = _remembered.get(digest)
    if known is None:
        known = _parsed(text, digest)
        if len(_remembered) >= MAX_REMEMBERED:
            _remembered.clear()
        _remembered[digest] = known
    return known


def _parsed(text: Any, digest: str) -> Tags:
    try:
        body = json_object(text, "data")
    except BadValueError as bad:
        return QueueSoftware(digest, readable=False), ((bad.code, str(bad)),)
    faults: list[str] = []
    hardware = _hardware(body.get("architectures"), faults)
    tags: set[str] = set()
    names: set[str] = set()
    for tag in _items(body, "tags", dict, faults):
        platform, project, release = (_text(tag.get(key)) for key in ("cmtconfig", "project", "release"))
        if platform and project and release is not None:
            tags.add(tag_key(platform, project, release))
        names.update(_names_of(tag, faults))
    return (
        QueueSoftware(
            digest,
            readable=hardware is not None,
            cmtconfigs=tuple(_interned(_items(body, "cmtconfigs", str, faults))),
            containers=tuple(_interned(name for name in _items(body, "containers", str, faults) if name)),
            cvmfs=frozenset(_interned(_items(body, "cvmfs", str, faults))),
            tags=frozenset(_interned(tags)),
            container_names=frozenset(_interned(names)),
            hardware=hardware or Hardware(),
        ),
        tuple(("defaulted", fault) for fault in faults[:MAX_REPORTED]),
    )


def _interned(words: Any) -> Iterator[str]:
    """The words, interned so that memory holds each once however many queues publish it."""
    return (sys.intern(word) for word in words)


def _items(body: dict[str, Any], key: str, kind: type, faults: list[str]) -> Iterator[Any]:
    """The usable items of a list; a missing list and a value that is not a list count as empty."""
    value = body.get(key)
    if value is None:
        return
    if not isinstance(value, list):
        faults.append(f"{key}: wrong_type: {type(value).__name__}")
        return
    for item in value:
        if isinstance(item, kind):
            yield item
        else:
            faults.append(f"{key}: wrong_type: an item of type {type(item).__name__}")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) <= MAX_NAME_CHARACTERS else None


def _names_of(tag: dict[str, Any], faults: list[str]) -> Iterator[str]:
    name = tag.get("container_name")
    if isinstance(name, str) and name:
        yield name
    yield from (source for source in _items(tag, "sources", str, faults) if source)


def _hardware(value: Any, faults: list[str]) -> Hardware | None:
    """The hardware description; None if unreadable, since the excluded jobs are then unknown."""
    if value is None:
        return Hardware()
    if not isinstance(value, list):
        faults.append(f"architectures: wrong_type: {type(value).__name__}")
        return None
    entries: dict[str, HardwareEntry] = {}
    for item in value:
        if not isinstance(item, dict):
            faults.append(f"architectures: wrong_type: an item of type {type(item).__name__}")
            return None
        kind = item.get("type")
        if not (kind is None or isinstance(kind, str)):
            faults.append(f"architectures.type: wrong_type: {type(kind).__name__}")
            return None
        if kind in ("cpu", "gpu"):
            entries[kind] = _entry(item, faults)
    return Hardware(entries.get("cpu"), entries.get("gpu"))


def _entry(item: dict[str, Any], faults: list[str]) -> HardwareEntry:
    values = {key: _words(item.get(key), key, faults) for key in ("arch", "vendor", "instr")}
    # a plain text, such as a version, excludes no task
    exclusive = any(isinstance(value, list) and EXCLUSIVE in value for value in item.values())
    return HardwareEntry(**values, exclusive=exclusive)


def _words(value: Any, key: str, faults: list[str]) -> tuple[str, ...] | None:
    if value is None:
        return None
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        faults.append(f"architectures.{key}: wrong_type")
        return tuple(word for word in words if isinstance(word, str)) if isinstance(words, list) else ()
    return tuple(sys.intern(word) for word in words)


def read_sources(text: Any, dropped_rows: list[DroppedRow]) -> ContainerSources:
    """Container sources: for each name, the sources of all tags with that name."""
    try:
        body = json_object(text, "data")
    except BadValueError as bad:
        dropped_rows.append(DroppedRow("software", ALL_QUEUES, bad.code, str(bad)))
        return ContainerSources()
    faults: list[str] = []
    by_name: dict[str, set[str]] = {}
    for tag in _items(body, "tags", dict, faults):
        name = tag.get("container_name")
        if isinstance(name, str) and name:
            by_name.setdefault(name, set()).update(_items(tag, "sources", str, faults))
    dropped_rows.extend(DroppedRow("software", ALL_QUEUES, "defaulted", fault) for fault in faults[:MAX_REPORTED])
    return ContainerSources(digest_of(text), {name: tuple(sorted(sources)) for name, sources in by_name.items()})

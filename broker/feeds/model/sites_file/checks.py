"""Checks across a file of sites: names, endpoints that are read and written, and figures that belong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from broker.errors import did_you_mean

Place = tuple[str | int, ...]
#: A value with its place.
Placed = tuple[Place, Any]


@dataclass(frozen=True)
class Fault:
    """A fault at a place; ``of_key``: of the key there, not of its value."""

    place: Place
    what: str
    remedy: str
    of_key: bool = False


def cross_checks(content: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults between parts of a file. Faults within a part are left to other checks."""
    sites = list(_mappings(((), content), "sites"))
    endpoints = [one for site in sites for one in _mappings(site, "storage")]
    queues = [(site, queue) for site in sites for queue in _mappings(site, "queues")]
    yield from _duplicates("endpoint", endpoints)
    yield from _duplicates("queue", [queue for _, queue in queues])
    for place, slot in (*(queue for _, queue in queues), *_mapping(((), content), "defaults")):
        yield from _pilots(place, slot)
    names = {str(place[-1]): value for place, value in endpoints}
    for site, queue in queues:
        yield from _endpoints_of(site, queue, names)
    for place, storage in endpoints:
        yield from _space(place, storage)
    for place, kind in _mappings(((), content), "resource_types"):
        yield from _bounds(place, kind)


def _mappings(above: Placed, key: str) -> Iterator[Placed]:
    """The mappings under a key, by name; nothing if there are none."""
    place, value = above
    inner = value.get(key) if isinstance(value, Mapping) else None
    for name, one in inner.items() if isinstance(inner, Mapping) else ():
        if isinstance(one, Mapping):
            yield (*place, key, str(name)), one


def _mapping(above: Placed, key: str) -> Iterator[Placed]:
    """The mapping under a key, if there is one."""
    place, value = above
    if isinstance(value, Mapping) and isinstance(inner := value.get(key), Mapping):
        yield (*place, key), inner


def _duplicates(kind: str, placed: list[Placed]) -> Iterator[Fault]:
    first: dict[str, Place] = {}
    for place, _ in placed:
        name = str(place[-1])
        if name in first:
            yield Fault(place, f"{kind} {name} is at site {first[name][1]} too", "give each its own name", of_key=True)
        first.setdefault(name, place)


def _endpoints_of(site: Placed, queue: Placed, names: Mapping[str, Mapping[str, Any]]) -> Iterator[Fault]:
    place, value = queue
    for role in ("read", "write"):
        listed = value.get(role)
        for index, name in enumerate(listed if isinstance(listed, list) else ()):
            position = (*place, role, index)
            if not isinstance(name, str):
                continue
            if name not in names:
                known = f"known are {', '.join(sorted(names))[:200]}" if names else "write it under storage of its site"
                yield Fault(position, f"there is no endpoint {name[:60]}", did_you_mean(name, names, known))
            elif role == "write" and names[name].get("tape") is True:
                yield Fault(position, f"{name} is tape, where jobs do not write", "name a disk")
    own = [one for one in _mappings(site, "storage") if one[1].get("tape") is not True]
    if not own and not value.get("write"):
        what = f"site {site[0][-1]} has no disk, and the queue says of none where it writes"
        yield Fault(place, what, "write storage of the site, or write: [ENDPOINT] of another one", of_key=True)


def _space(place: Place, storage: Mapping[str, Any]) -> Iterator[Fault]:
    total: Any
    free: Any
    total, free = (storage.get(key) for key in ("total_tb", "free_tb"))
    if (total is None) != (free is None):
        missing = "total_tb" if total is None else "free_tb"
        yield Fault(place, f"{missing} is missing", "write total_tb and free_tb, or leave out both", of_key=True)
    elif _are_numbers(total, free) and free > total:
        yield Fault((*place, "free_tb"), f"{free} TB free of {total} TB", "write at most total_tb")


def _pilots(place: Place, slot: Mapping[str, Any]) -> Iterator[Fault]:
    for limits_place, limits in _mapping((place, slot), "pilots"):
        waiting, total = (limits.get(key) for key in ("most_waiting", "most_pilots"))
        if _are_numbers(waiting, total) and waiting > total:
            what = f"{waiting} pilots may wait, of {total} that may wait and run"
            yield Fault((*limits_place, "most_waiting"), what, "write at most most_pilots")


def _bounds(place: Place, kind: Mapping[str, Any]) -> Iterator[Fault]:
    for key in ("cores", "memory_mb_per_core"):
        bounds = kind.get(key)
        if isinstance(bounds, list) and len(bounds) == 2 and _are_numbers(*bounds) and bounds[0] > bounds[1]:
            yield Fault((*place, key), f"{bounds[0]} is more than {bounds[1]}", "write the smaller one first")


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)

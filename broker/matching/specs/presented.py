"""Reading nodes that pilots present again and again: what stays the same of a machine is read once.

Pilots that ask again report less time, and the cores, memory and scratch space that are left.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from broker.matching.specs.blocks import MOST
from broker.matching.specs.node import Node
from broker.matching.specs.node_reading import read_node
from broker.matching.specs.problems import SpecRefused

CACHE_SIZE = 16_384
"""Most kinds of machines in the cache, of some 2 KB each: they differ by their tags too."""
_SITE = "-"
_FORM = 2
"""Version of marshal, several times as fast as JSON: the last in which equal documents are always the same bytes."""
_CHANGING: Mapping[str | None, Mapping[str, str]] = {
    None: {"wall-time": "wall_time_s", "wall_time": "wall_time_s"},
    "cpu": {"num-cores": "cores", "num_cores": "cores", "ram-mb": "ram_mb", "ram_mb": "ram_mb"},
    "io": {"scratch-mb": "scratch_mb", "scratch_mb": "scratch_mb"},
}
"""By block, the values that change from one request to the next: the field of the node by its name."""


def read_presented(site: str, document: Mapping[str, Any]) -> Node:
    """Read a JSON document like :func:`read_node`; without a site in it the node is at ``site``.

    Raises:
        SpecRefused: with the field and the value.
    """
    changes: dict[str, Any] = {} if "site" in document else {"site": site}
    same = {"site": _SITE, **document}
    for block, names in _CHANGING.items():
        table = same if block is None else same.get(block)
        if type(table) is dict:
            _set_aside(same, block, table, names, changes)
    try:
        return _read(marshal.dumps(same, _FORM)).with_changes(changes)
    except SpecRefused:
        return read_node({"site": site, **document})


def _set_aside(
    same: dict[str, Any], block: str | None, table: dict[str, Any], names: Mapping[str, str], changes: dict[str, Any]
) -> None:
    """Move whole numbers that are valid into ``changes``, and put 1 in their place."""
    numbers = {name: table[name] for name in names if type(table.get(name)) is int and 1 <= table[name] <= MOST}
    changes |= {names[name]: value for name, value in numbers.items()}
    if block is None:
        same |= dict.fromkeys(numbers, 1)
    else:
        same[block] = table | dict.fromkeys(numbers, 1)


@lru_cache(maxsize=CACHE_SIZE)
def _read(written: bytes) -> Node:
    return read_node(marshal.loads(written))  # noqa: S302 - what was written above

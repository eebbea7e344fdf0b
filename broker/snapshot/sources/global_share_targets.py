"""The source ``global_share_targets``: the target fraction of the grid for each share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker.snapshot.build_classes import share_values
from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, TableRead

SHARE_TARGETS = "global_share_targets"


class GlobalShareTargets(Source):
    """The target fraction of the whole for each leaf share."""

    name = SHARE_TARGETS
    reads = (TableRead("global_shares", ("name", "value", "parent")),)

    def build(self, raw: RawSource, snapshot: Snapshot) -> Any:
        """Build targets by share name; unusable rows are dropped, with the shares below them."""
        return targets_of(share_values(raw.rows("global_shares").records(), []))


def targets_of(rows: Iterable[tuple[str, float, str | None]]) -> dict[str, float]:
    """The fraction of the whole for each leaf; the values of siblings are relative to each other.

    >>> targets_of([("A", 3.0, None), ("B", 1.0, None), ("B1", 2.0, "B"), ("B2", 2.0, "B")])
    {'A': 0.75, 'B1': 0.125, 'B2': 0.125}
    """
    below: dict[str | None, list[tuple[str, float]]] = {}
    for name, value, parent in rows:
        below.setdefault(parent, []).append((name, value))
    targets: dict[str, float] = {}
    open_: list[tuple[str | None, float]] = [(None, 1.0)]
    while open_:
        parent, part = open_.pop(0)
        # removed, so that a share that is its own parent ends here
        children = below.pop(parent, [])
        whole = sum(value for _, value in children)
        if parent is not None and not children:
            targets[parent] = part
        open_ += [(name, part * value / whole) for name, value in children if whole > 0]
    return targets

"""The source ``global_share_names``: the names of the existing shares."""

from __future__ import annotations

from typing import Any

from broker.snapshot.raw import RawSource
from broker.snapshot.snapshot import Snapshot
from broker.snapshot.source import Source, TableRead

GLOBAL_SHARES = "global_share_names"


class GlobalShareNames(Source):
    """The names of the global shares."""

    name = GLOBAL_SHARES
    reads = (TableRead("global_shares", ("name",)),)

    def build(self, raw: RawSource, snapshot: Snapshot) -> Any:
        """Build the set of names."""
        return frozenset(row["name"] for row in raw.rows("global_shares").records())

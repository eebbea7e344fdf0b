"""The source ``slots``: numbers of slots that Harvester publishes."""

from __future__ import annotations

import math

import numpy as np

from broker.domain.arrays import floats, texts
from broker.domain.queues import SlotTable
from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import BadValueError, RawSource, instants_s, number, seconds, text
from broker.snapshot.source import TableRead
from broker.snapshot.sources.queues import QUEUES

_COLUMNS = ("pandaqueuename", "gshare", "resourcetype", "numslots", "expirationtime")


class Slots(GridSource[SlotTable]):
    """Harvester slots carry their own expiry."""

    name = "slots"
    reads = (TableRead("harvester_slots", (*_COLUMNS, "modificationtime")),)

    def build(self, raw: RawSource, draft: Draft) -> SlotTable:
        """Build the unexpired rows of known queues."""
        ends_s = instants_s(raw.rows("harvester_slots").column("expirationtime"))
        return build_slots(raw, draft.of(QUEUES).rows, draft.now_against(ends_s), draft.dropped_rows)


SLOTS = Slots()


def build_slots(source: RawSource, unified: dict[str, int], now_s: float, dropped_rows: list[DroppedRow]) -> SlotTable:
    """Published numbers of slots that have not expired; a negative number is no number.

    Of two rows of one queue, share and resource type that of the newest ``modificationtime`` counts, without times the
    last one. Source: PanDA production brokerage, number of running jobs.
    """
    newest: dict[tuple[int, str | None, str | None], tuple[float, float]] = {}
    for row in source.rows("harvester_slots").records():
        queue = unified.get(row["pandaqueuename"])
        if queue is None:
            continue
        try:
            numslots, expiry = number(row["numslots"], "numslots"), seconds(row["expirationtime"], "expirationtime")
            share, kind = text(row["gshare"], "gshare"), text(row["resourcetype"], "resourcetype")
            # snapshots of older releases have no such column
            changed_s = seconds(row.get("modificationtime"), "modificationtime")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("slots", str(row["pandaqueuename"])[:80], bad.code, str(bad)))
            continue
        if numslots >= 0 and (math.isnan(expiry) or expiry > now_s):
            key, entry = (queue, share, kind), (-math.inf if math.isnan(changed_s) else changed_s, numslots)
            if key not in newest or entry[0] >= newest[key][0]:
                newest[key] = entry
    rows = sorted(((*key, numslots) for key, (_, numslots) in newest.items()), key=str)
    return SlotTable(
        unified=np.array([row[0] for row in rows], dtype=np.int64),
        gshare=texts(row[1] for row in rows),
        resource_type=texts(row[2] for row in rows),
        numslots=floats(row[3] for row in rows),
    )

"""The source ``slots``: numbers of slots that Harvester publishes."""

from __future__ import annotations

import math

import numpy as np

from broker.domain.arrays import floats, texts
from broker.domain.queues import SlotTable
from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft
from broker.snapshot.raw import RawSource
from broker.snapshot.readings import BadValueError, instants_s, number, seconds, text
from broker.snapshot.source import GridSource, TableRead
from broker.snapshot.sources.queues import QUEUES


class Slots(GridSource[SlotTable]):
    """Harvester slots carry their own expiry."""

    name = "slots"
    reads = (TableRead("harvester_slots", ("pandaqueuename", "gshare", "resourcetype", "numslots", "expirationtime")),)

    def build(self, raw: RawSource, draft: Draft) -> SlotTable:
        """Those of known queues that have not expired."""
        ends_s = instants_s(raw.rows("harvester_slots").column("expirationtime"))
        return build_slots(raw, draft.of(QUEUES).rows, draft.now_against(ends_s), draft.dropped_rows)


SLOTS = Slots()


def build_slots(source: RawSource, unified: dict[str, int], now_s: float, dropped_rows: list[DroppedRow]) -> SlotTable:
    """Published numbers of slots that have not expired; a negative number is no number."""
    rows: list[tuple[int, str | None, str | None, float]] = []
    for row in source.rows("harvester_slots").records():
        queue = unified.get(row["pandaqueuename"])
        if queue is None:
            continue
        try:
            numslots, expiry = number(row["numslots"], "numslots"), seconds(row["expirationtime"], "expirationtime")
            share, kind = text(row["gshare"], "gshare"), text(row["resourcetype"], "resourcetype")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("slots", str(row["pandaqueuename"])[:80], bad.code, str(bad)))
            continue
        if numslots >= 0 and (math.isnan(expiry) or expiry > now_s):
            rows.append((queue, share, kind, numslots))
    rows.sort(key=str)
    return SlotTable(
        unified=np.array([row[0] for row in rows], dtype=np.int64),
        gshare=texts(row[1] for row in rows),
        resource_type=texts(row[2] for row in rows),
        numslots=floats(row[3] for row in rows),
    )

"""The source ``pilots``: requests and reports of pilots in the last hours.

Source: PanDA data model, pilot activity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import BadValueError, RawSource, not_negative, seconds, zero_if_null
from broker.snapshot.source import SourceLimit, TableRead
from broker.snapshot.sources.queues import QUEUES


@dataclass(frozen=True)
class PilotActivity:
    """Pilots of the last 3 hours, and the last job start in seconds since 1970 UTC, by unified queue (U,)."""

    n_pilots: Floats
    laststart_s: Floats


class Pilots(GridSource[PilotActivity]):
    """Requests of pilots; rows are zeroed after 3 h."""

    name = "pilots"
    reads = (
        TableRead(
            "sitedata",
            ("site", "flag", "hours", "getjob", "updatejob", "laststart", "lastmod"),
            stamp="lastmod",
            where="hours = 3 AND flag IN ('production', 'analysis')",
        ),
    )
    limit = SourceLimit(max_age_s=21_600.0, may_be_empty=False, max_shrink=0.8)

    def build(self, raw: RawSource, draft: Draft) -> PilotActivity:
        """Build the columns from the row of each unified queue."""
        return PilotActivity(*build_pilots(raw, draft.of(QUEUES).rows, draft.dropped_rows))


PILOTS = Pilots()


def build_pilots(source: RawSource, unified: dict[str, int], dropped_rows: list[DroppedRow]) -> tuple[Floats, Floats]:
    """Pilots of the last 3 hours (0 without a row) and last job start (NaN if never seen), by unified queue."""
    n_pilots = np.zeros(len(unified))
    laststart = np.full(len(unified), np.nan)
    for row in source.rows("sitedata").records():
        queue = unified.get(row["site"])
        flag = "analysis" if str(row["site"]).startswith("ANALY_") else "production"
        if queue is None or row["flag"] != flag or row["hours"] != 3:
            continue
        try:
            pilots = sum(zero_if_null(not_negative(row[key], key)) for key in ("getjob", "updatejob"))
            n_pilots[queue], laststart[queue] = pilots, seconds(row["laststart"], "laststart")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("pilots", str(row["site"])[:80], bad.code, str(bad)))
    return n_pilots, laststart

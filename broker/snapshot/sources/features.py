"""The source ``features``: machines and slots as reported by pilots, summarised by an agent."""

from __future__ import annotations

import math

import numpy as np

from broker.domain.queues import FeatureTable
from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import BadValueError, RawSource, not_negative, seconds
from broker.snapshot.source import SourceLimit, TableRead
from broker.snapshot.sources.queues import QUEUES

TABLE = "queue_features"
_NUMBERS = ("pilots", "corepower", "maxtime_s", "maxrss_per_core_mb", "maxwdir_per_core_mb")


class Features(GridSource[FeatureTable]):
    """Pilot reports, summarised by an agent."""

    name = "features"
    reads = (
        TableRead(
            f"broker.{TABLE}", ("queue", "computed_at", *_NUMBERS, "shutdown_at"), stamp="computed_at", stored_as=TABLE
        ),
    )
    limit = SourceLimit(max_age_s=3600.0)

    def build(self, raw: RawSource, draft: Draft) -> FeatureTable:
        """Build the figures by unified queue."""
        return build_features(raw, draft.of(QUEUES).rows, draft.dropped_rows)


FEATURES = Features()


def build_features(source: RawSource, unified: dict[str, int], dropped_rows: list[DroppedRow]) -> FeatureTable:
    """The figures by unified queue; unusable rows and rows of unknown queues are dropped."""
    columns = {name: np.full(len(unified), math.nan) for name in (*_NUMBERS, "shutdown_s")}
    for row in source.rows(TABLE).records():
        index = unified.get(row["queue"])
        if index is None:
            dropped_rows.append(DroppedRow("features", str(row["queue"])[:80], "unknown_queue", "no such queue"))
            continue
        try:
            values = {name: not_negative(row[name], name) for name in _NUMBERS}
            values["shutdown_s"] = seconds(row["shutdown_at"], "shutdown_at")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("features", str(row["queue"])[:80], bad.code, str(bad)))
            continue
        for name, value in values.items():
            columns[name][index] = value
    return FeatureTable(**columns)

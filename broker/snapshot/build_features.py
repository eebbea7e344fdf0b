"""What pilots report, from the rows of ``queue_features``."""

from __future__ import annotations

import math

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.feature_table import FeatureTable
from broker.domain.work import DroppedRow
from broker.snapshot.raw import RawSource
from broker.snapshot.readings import BadValueError, not_negative, seconds

TABLE = "queue_features"
_NUMBERS = ("pilots", "corepower", "maxtime_s", "maxrss_per_core_mb", "maxwdir_per_core_mb")


def build_features(source: RawSource, unified: dict[str, int], dropped_rows: list[DroppedRow]) -> FeatureTable:
    """The figures by unified queue; a row that cannot be used, or of no known queue, is left out."""
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


def no_features(unified: int) -> FeatureTable:
    """Nothing reported about any of so many queues."""
    nothing: Floats = np.full(unified, math.nan)
    return FeatureTable(nothing, nothing, nothing, nothing, nothing, nothing)

"""The source ``metrics``: PanDA's metrics of shares, sites and users.

Source: ATLAS Analysis Job Brokerage; PanDA analysis brokerage, classes and counting rules.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import (
    MAX_METRIC_CHARACTERS,
    RawSource,
    add_guarded,
    instants_s,
    json_object,
    name,
    not_negative,
    number,
    seconds,
)
from broker.snapshot.source import TableRead
from broker.snapshot.sources.queues import QUEUES

#: Validity of the rows of each metric in seconds.
METRIC_VALIDITY_S = {"gshare_preference": 900.0, "analy_site_eval": 3600.0, "analy_user_eval": 1200.0}
#: Unused key columns of PanDA's metrics hold this text.
NO_KEY = "NULL"
L1_PREFIX = "L1 "
_METRICS_READ = ", ".join(f"'{metric}'" for metric in METRIC_VALIDITY_S)


class Metrics(GridSource["FreshMetrics"]):
    """Metrics of PanDA; each row counts for 15 to 60 min."""

    name = "metrics"
    reads = (
        TableRead(
            "metrics",
            ("computingsite", "gshare", "metric", "value_json", "timestamp"),
            ("value_json",),
            where=f"metric IN ({_METRICS_READ})",
        ),
    )
    for_analysis = True

    def build(self, raw: RawSource, draft: Draft) -> FreshMetrics:
        """Build the fresh metrics."""
        stamps = raw.rows("metrics").column("timestamp")
        ends_s = set().union(*(instants_s(stamps, limit_s) for limit_s in METRIC_VALIDITY_S.values()))
        metrics = FreshMetrics(draft.of(QUEUES).rows, draft.now_against(ends_s))
        for row in raw.rows("metrics").records():
            about = f"{row['metric']} {row['computingsite'] or row['gshare']}"
            add_guarded(metrics.add, row, self.name, about, draft.dropped_rows)
        return metrics


METRICS = Metrics()


class FreshMetrics:
    """Collects PanDA's fresh metrics."""

    def __init__(self, unified: dict[str, int], now_s: float) -> None:
        self._unified, self._now_s = unified, now_s
        self.usage: dict[str, float] = {}
        self.usage_l1: dict[str, float] = {}
        self.site_class = np.full(len(unified), np.nan)
        self.slots_left: dict[str, float] = {}

    def add(self, row: dict[str, Any]) -> None:
        """Add a row, unless it is too old.

        Raises:
            BadValueError: the row is unusable.
        """
        limit_s = METRIC_VALIDITY_S.get(row["metric"])
        # NaN compares false: a row without a time counts as too old
        if limit_s is None or not self._now_s - seconds(row["timestamp"], "timestamp") <= limit_s:
            return
        document = json_object(row["value_json"], "value_json", MAX_METRIC_CHARACTERS)
        if row["metric"] == "gshare_preference":
            self._add_usage(row["gshare"], document)
        elif row["metric"] == "analy_site_eval":
            queue = self._unified.get(row["computingsite"])
            if queue is not None:
                self.site_class[queue] = number(document.get("class"), "class")
        else:
            self._add_users(document)

    def _add_usage(self, share: Any, document: dict[str, Any]) -> None:
        known = name(share, "gshare")
        top = known.startswith(L1_PREFIX)
        key = "eqiv_usage_perc" if top else "usage_perc"
        value = not_negative(document.get(key), key)
        if not math.isnan(value):
            (self.usage_l1 if top else self.usage)[known.removeprefix(L1_PREFIX) if top else known] = value

    def _add_users(self, document: dict[str, Any]) -> None:
        for user, entry in document.items():
            left = number(entry.get("rem_slots_A"), "rem_slots_A") if isinstance(entry, dict) else math.nan
            if not math.isnan(left):
                self.slots_left[user] = left

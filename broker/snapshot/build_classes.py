"""Parse rows of PanDA's tables into the inputs of classes; unusable rows are dropped with a reason.

Source: PanDA data model, schedconfig, global_shares and metrics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from broker.domain.classification import GRID, QueueAbout
from broker.domain.work import DroppedRow
from broker.snapshot.raw import (
    MAX_METRIC_CHARACTERS,
    BadValueError,
    json_object,
    lenient_number,
    name,
    number,
    seconds,
    text,
)

Row = Mapping[str, Any]


def queues_about(rows: Iterable[Row], dropped_rows: list[DroppedRow]) -> dict[str, QueueAbout]:
    """Parse rows of ``schedconfig_json`` (``panda_queue``, ``data`` as text), by nickname, or else the row's name."""
    queues: dict[str, QueueAbout] = {}
    for row in rows:
        try:
            data = json_object(row["data"], "data")
            nickname = data.get("nickname")
            queue = name(row["panda_queue"] if nickname in (None, "") else nickname, "nickname")
            kind = text(data.get("resource_type"), "resource_type") or GRID
            workflow = text(data.get("workflow"), "workflow")
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("queues", str(row["panda_queue"])[:80], bad.code, str(bad)))
            continue
        corepower = lenient_number(data.get("corepower"), "corepower", math.nan, [])
        # a second row of the same name is dropped, as in the snapshot
        queues.setdefault(queue, QueueAbout(kind, workflow, corepower))
    return queues


def known_sites(
    rows: Iterable[Row], now_s: float, limit_s: float, dropped_rows: list[DroppedRow]
) -> dict[str, tuple[int, str]]:
    """Class and kind of resource of each queue, from rows of ``analy_site_eval`` up to ``limit_s`` old."""
    sites: dict[str, tuple[int, str]] = {}
    for row in rows:
        try:
            # NaN compares false: a row without a time counts as too old
            if not now_s - seconds(row["timestamp"], "timestamp") <= limit_s:
                continue
            queue = name(row["computingsite"], "computingsite")
            document = json_object(row["value_json"], "value_json", MAX_METRIC_CHARACTERS)
            site_class = number(document.get("class"), "class")
            if site_class not in (-1, 0, 1):
                raise BadValueError("no_class", "class", document.get("class"))
            kind = text(document.get("resource_type"), "resource_type") or GRID
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("metrics", str(row["computingsite"])[:80], bad.code, str(bad)))
            continue
        sites[queue] = (int(site_class), kind)
    return sites


def share_values(rows: Iterable[Row], dropped_rows: list[DroppedRow]) -> list[tuple[str, float, str | None]]:
    """Name, percentage of the parent, and parent of each share; a missing percentage is 0."""
    shares = []
    for row in rows:
        try:
            share = name(row["name"], "name")
            value = number(row["value"], "value", 0.0)
            if value < 0:
                raise BadValueError("negative", "value", value)
            parent = text(row["parent"], "parent") or None
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("global_shares", str(row["name"])[:80], bad.code, str(bad)))
            continue
        shares.append((share, value, parent))
    return shares

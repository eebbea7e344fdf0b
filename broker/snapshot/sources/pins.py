"""The source ``pins``: queue fields temporarily held by an operator, which override CRIC's values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from broker.domain.work import DroppedRow
from broker.snapshot.draft import Draft, GridSource
from broker.snapshot.raw import BadValueError, RawSource, instants_s, name, seconds, text
from broker.snapshot.source import TableRead

TABLE = "queue_pins"
PIN_COLUMNS = ("queue", "field", "value", "reason", "editor", "set_at", "until")

Pinned = Mapping[str, Mapping[str, Any]]
"""The held values by queue and field."""
NO_PINS: Pinned = MappingProxyType({})


class Pins(GridSource[Pinned]):
    """Fields of queues held by operators."""

    name = "pins"
    reads = (TableRead(f"broker.{TABLE}", PIN_COLUMNS, as_text=("value",), where="ended_at IS NULL", stored_as=TABLE),)

    def build(self, raw: RawSource, draft: Draft) -> Pinned:
        """Build the pins in force at the instant of the snapshot."""
        pins = raw.rows(TABLE)
        now_s = draft.now_against(instants_s([*pins.column("set_at"), *pins.column("until")]))
        return pins_in_force(raw, now_s, draft.dropped_rows)


PINS = Pins()


def pins_in_force(source: RawSource, now_s: float, dropped_rows: list[DroppedRow]) -> dict[str, dict[str, Any]]:
    """The pins in force at ``now_s`` (seconds since 1970 UTC); an unusable row is dropped."""
    pins: dict[str, dict[str, Any]] = {}
    for row in source.rows(TABLE).records():
        try:
            queue, field = name(row["queue"], "queue"), name(row["field"], "field")
            starts_s, ends_s = seconds(row["set_at"], "set_at"), seconds(row["until"], "until")
            value = _value(row["value"])
        except BadValueError as bad:
            dropped_rows.append(DroppedRow(Pins.name, str(row["queue"])[:80], bad.code, str(bad)))
            continue
        if not math.isnan(ends_s) and starts_s <= now_s < ends_s:
            pins.setdefault(queue, {})[field] = value
    return pins


def unknown_queues(source: RawSource, queues: Mapping[str, int], dropped_rows: list[DroppedRow]) -> None:
    """Report the pins of unknown queues as dropped rows."""
    pinned = {str(row["queue"]) for row in source.rows(TABLE).records()}
    for queue in sorted(pinned - set(queues)):
        dropped_rows.append(DroppedRow(Pins.name, queue[:80], "unknown_queue", "no such queue"))


def _value(document: Any) -> Any:
    encoded = text(document, "value")
    try:
        return json.loads(encoded or "")
    except (ValueError, RecursionError) as error:
        raise BadValueError("invalid_json", "value", encoded) from error

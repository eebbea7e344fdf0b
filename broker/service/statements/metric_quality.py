"""The quality of each brokerage's newest cycle, for the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

_NEWEST = sa.text("""
    SELECT DISTINCT ON (brokerage, vo, placer)
        brokerage, vo, placer, greatest(cost_hs06h - best_hs06h, 0) AS regret_hs06h,
        best_hs06h - left_hs06h AS work_hs06h, gb - best_gb AS vain_gb, input_gb, measure_s,
        details -> 'shares' AS shares
    FROM broker.decision_quality
    WHERE state = 'measured' AND decided_at > clock_timestamp() - interval '1 hour'
    ORDER BY brokerage, vo, placer, decided_at DESC""")


@dataclass(frozen=True)
class NewestQuality:
    """A measured cycle.

    Attributes:
        regret_hs06h: excess cost over the best placement; ``work_hs06h`` is the cost of that.
        vain_gb: data moved beyond the best placement, out of ``input_gb``.
        shares: regret of each share in HS06 h.
    """

    brokerage: str
    vo: str
    placer: str
    regret_hs06h: float
    work_hs06h: float
    vain_gb: float
    input_gb: float
    measure_s: float
    shares: Mapping[str, float]


def newest_quality(connection: sa.Connection) -> list[NewestQuality]:
    """Return the newest measured cycle of each brokerage, if it is from the last hour."""
    result = []
    for row in connection.execute(_NEWEST):
        fields: dict[str, Any] = dict(row._mapping)
        shares = {name: float(regret) for name, _, regret in fields.pop("shares") or []}
        result.append(NewestQuality(**fields, shares=shares))
    return result

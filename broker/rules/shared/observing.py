"""Cells of arrays as plain values, for observations: NaN becomes ``None``."""

from __future__ import annotations

import math

from broker.domain.arrays import AnyArray


def number(cell: AnyArray) -> float | None:
    """The only element as a number, ``None`` for NaN; whole numbers and infinities are left as they are."""
    value = float(cell.item())
    return None if math.isnan(value) else value


def limit_number(cell: AnyArray) -> float | None:
    """The only element as a limit: ``None`` for NaN and for an infinite one, which both mean that there is no limit."""
    value = float(cell.item())
    return value if math.isfinite(value) else None


def text(cell: AnyArray) -> str | None:
    """The only element as a text, ``None`` for NULL."""
    value = cell.item()
    return None if value is None else str(value)


def flag(cell: AnyArray) -> bool:
    """The only element as a truth value."""
    return bool(cell.item())

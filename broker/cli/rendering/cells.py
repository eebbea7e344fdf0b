"""Values as the cells of a table or of CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import Enum

from broker.cli.rendering import moments
from broker.cli.rendering.visible_text import escaped


@dataclass(frozen=True)
class Percent:
    """A share between 0 and 1, shown in per cent."""

    share: float | None


@dataclass(frozen=True)
class Since:
    """A time together with how long ago it is."""

    at: datetime | None
    now: datetime


def cell_text(cell: object) -> str:
    """A value for people, on one line."""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.0f}" if 999_999.5 <= abs(cell) < 1e15 else f"{cell:.6g}"
    if isinstance(cell, datetime):
        return moments.utc(cell)
    if isinstance(cell, timedelta):
        return moments.length(cell)
    if isinstance(cell, Percent):
        return "" if cell.share is None else f"{100 * cell.share:.1f} %"
    if isinstance(cell, Since):
        return moments.with_age(cell.at, cell.now)
    if isinstance(cell, Enum):
        return escaped(cell.value)
    if isinstance(cell, Mapping):
        return ", ".join(f"{escaped(name)} {cell_text(value)}" for name, value in cell.items())
    if isinstance(cell, list | tuple | set | frozenset):
        return ", ".join(
            cell_text(one) for one in (sorted(cell, key=str) if isinstance(cell, set | frozenset) else cell)
        )
    return escaped(cell)


def csv_text(cell: object) -> str:
    """A value for a program: full precision, ISO 8601, no units."""
    if isinstance(cell, float):
        return repr(cell)
    if isinstance(cell, datetime | date):
        return cell.isoformat()
    if isinstance(cell, timedelta):
        return repr(cell.total_seconds())
    if isinstance(cell, Percent):
        return "" if cell.share is None else repr(cell.share)
    if isinstance(cell, Since):
        return "" if cell.at is None else cell.at.isoformat()
    return cell_text(cell)


def is_figure(cell: object) -> bool:
    """Whether a cell is set to the right."""
    return cell is None or isinstance(cell, int | float | Percent | timedelta)


def may_break(cell: object) -> bool:
    """Whether a cell may go on in the next line, at a blank; times and figures stay in one piece."""
    return isinstance(cell, str | list | tuple | set | frozenset | Mapping)

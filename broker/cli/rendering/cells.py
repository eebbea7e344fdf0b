"""Values as cells of a table or of CSV; times in UTC with their zone and age.

Untrusted text is made safe for a terminal: control characters and marks that reorder text are escaped.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import Enum

from broker.domain.instants import aware, length

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def escaped(value: object) -> str:
    """Return ``value`` as text in which every character is visible and stays on its line."""
    text = "" if value is None else str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def columns_of(text: str) -> int:
    """Return the number of terminal columns that ``text`` takes; wide characters take two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def remark(text: str) -> None:
    """Print a line on stderr."""
    print(escaped(text), file=sys.stderr, flush=True)


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    if code < 0x100:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def utc(at: datetime) -> str:
    """Format as ``2026-11-22 05:20:58 UTC``; a time without a zone is already in UTC."""
    moment = aware(at)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def ago(at: datetime, now: datetime) -> str:
    """Format as ``12 min ago``, or as ``in 12 min`` for a future time."""
    span = aware(now) - aware(at)
    if abs(span) < timedelta(seconds=0.5):
        return "now"
    words = length(abs(span).total_seconds())
    return f"in {words}" if span < timedelta(0) else f"{words} ago"


def with_age(at: datetime | None, now: datetime) -> str:
    """Format as ``2026-11-22 05:20:58 UTC (12 min ago)``; empty for None."""
    return "" if at is None else f"{utc(at)} ({ago(at, now)})"


@dataclass(frozen=True)
class Percent:
    """A share between 0 and 1, shown in per cent."""

    share: float | None


@dataclass(frozen=True)
class TimeWithAge:
    """A time together with its age."""

    at: datetime | None
    now: datetime


def cell_text(cell: object) -> str:
    """Format a value for people, on one line."""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.0f}" if 999_999.5 <= abs(cell) < 1e15 else f"{cell:.6g}"
    if isinstance(cell, datetime):
        return utc(cell)
    if isinstance(cell, timedelta):
        return length(abs(cell).total_seconds())
    if isinstance(cell, Percent):
        return "" if cell.share is None else f"{100 * cell.share:.1f} %"
    if isinstance(cell, TimeWithAge):
        return with_age(cell.at, cell.now)
    if isinstance(cell, Enum):
        return escaped(cell.value)
    if isinstance(cell, Mapping):
        return ", ".join(f"{escaped(name)} {cell_text(value)}" for name, value in cell.items())
    if isinstance(cell, list | tuple | set | frozenset):
        return ", ".join(
            cell_text(item) for item in (sorted(cell, key=str) if isinstance(cell, set | frozenset) else cell)
        )
    return escaped(cell)


def csv_text(cell: object) -> str:
    """Format a value for programs: full precision, ISO 8601, no units."""
    if isinstance(cell, float):
        return repr(cell)
    if isinstance(cell, datetime | date):
        return cell.isoformat()
    if isinstance(cell, timedelta):
        return repr(cell.total_seconds())
    if isinstance(cell, Percent):
        return "" if cell.share is None else repr(cell.share)
    if isinstance(cell, TimeWithAge):
        return "" if cell.at is None else cell.at.isoformat()
    return cell_text(cell)


def is_figure(cell: object) -> bool:
    """Return whether a cell is aligned to the right."""
    return cell is None or isinstance(cell, int | float | Percent | timedelta)


def may_break(cell: object) -> bool:
    """Return whether a cell may be broken at a blank; times and figures stay whole."""
    return isinstance(cell, str | list | tuple | set | frozenset | Mapping)

"""How a table finds room: columns are given up, or every row becomes a record; no word is ever broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from broker.cli.rendering.visible_text import columns_of

GAP = "  "
NARROWEST_PROSE = 24
"""Columns of sentences are not made narrower than this."""


@dataclass(frozen=True)
class Body:
    """One column of a table as text.

    Attributes:
        heading: may break at its blanks.
        cells: one text a row.
        right: set to the right.
        breaks: cells may go on in the next line, at a blank.
        give_up: 0 for a column that is always shown; the largest goes first where there is no room.
    """

    heading: str
    cells: tuple[str, ...]
    right: bool = False
    breaks: bool = False
    give_up: int = 0


@dataclass(frozen=True)
class LaidOut:
    """The lines of a table, and the headings of the columns that found no room."""

    lines: tuple[str, ...]
    missing: tuple[str, ...] = ()


def lay_out(columns: Sequence[Body], width: int | None) -> LaidOut:
    """A table for so many columns of a terminal; None for any width."""
    if width is None:
        return LaidOut(tuple(_set(columns, [_natural(one) for one in columns])))
    kept, missing = list(columns), []
    while _total([_least(one) for one in kept]) > width:
        spare = max((one for one in kept if one.give_up), key=lambda one: one.give_up, default=None)
        if spare is None:
            return LaidOut(tuple(records(columns, width)))
        kept.remove(spare)
        missing.append(spare.heading)
    order = [one.heading for one in columns]
    return LaidOut(tuple(_set(kept, _fitted(kept, width))), tuple(sorted(missing, key=order.index)))


def records(columns: Sequence[Body], width: int | None) -> list[str]:
    """One record a row: a line for each column that has a value, and an empty line between rows."""
    names = max((columns_of(one.heading) for one in columns), default=0)
    lines: list[str] = []
    for row in range(len(columns[0].cells) if columns else 0):
        lines += [""] if row else []
        for one in columns:
            if one.cells[row]:
                room = None if width is None else max(NARROWEST_PROSE, width - names - len(GAP))
                first, *rest = wrapped(one.cells[row], room)
                lines.append(f"{_padded(one.heading, names, False)}{GAP}{first}".rstrip())
                lines += [f"{' ' * names}{GAP}{more}" for more in rest]
    return lines


def wrapped(text: str, width: int | None) -> list[str]:
    """``text`` in lines of at most ``width``, broken at blanks only; a longer word stays in one piece."""
    if width is None or columns_of(text) <= width:
        return [text]
    lines: list[str] = []
    for word in text.split(" "):
        if lines and columns_of(lines[-1]) + 1 + columns_of(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _longest_word(text: str) -> int:
    return max(map(columns_of, text.split(" ")), default=0)


def _widest(texts: Sequence[str]) -> int:
    return max(map(columns_of, texts), default=0)


def _natural(one: Body) -> int:
    return max(columns_of(one.heading), _widest(one.cells))


def _least(one: Body) -> int:
    cells = _widest(one.cells)
    if one.breaks:
        cells = max(min(cells, NARROWEST_PROSE), max(map(_longest_word, one.cells), default=0))
    return max(_longest_word(one.heading), cells)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * max(0, len(widths) - 1)


def _fitted(columns: Sequence[Body], width: int) -> list[int]:
    """Widths that fit: the widest column that can give way does, until the table fits."""
    widths, least = [_natural(one) for one in columns], [_least(one) for one in columns]
    while (excess := _total(widths) - width) > 0:
        widest = max((n for n in range(len(widths)) if widths[n] > least[n]), key=widths.__getitem__)
        others = [widths[n] for n in range(len(widths)) if widths[n] > least[n] and widths[n] < widths[widest]]
        floor = max(least[widest], max(others, default=0) - 1)
        widths[widest] -= min(excess, max(1, widths[widest] - floor))
    return widths


def _set(columns: Sequence[Body], widths: Sequence[int]) -> list[str]:
    lines: list[str] = []
    if any(one.heading for one in columns):
        heads = [replace(one, cells=(one.heading,), breaks=True) for one in columns]
        lines += _row(heads, widths, 0)
        lines.append(GAP.join("-" * size for size in widths).rstrip())
    for row in range(len(columns[0].cells) if columns else 0):
        lines += _row(columns, widths, row)
    return lines


def _row(columns: Sequence[Body], widths: Sequence[int], row: int) -> list[str]:
    cells = [wrapped(one.cells[row], size if one.breaks else None) for one, size in zip(columns, widths, strict=True)]
    return [
        GAP.join(
            _padded(cell[line] if line < len(cell) else "", size, one.right)
            for one, size, cell in zip(columns, widths, cells, strict=True)
        ).rstrip()
        for line in range(max(map(len, cells), default=0))
    ]


def _padded(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - columns_of(text))
    return blanks + text if right else text + blanks

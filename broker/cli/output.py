"""Output of commands, as ``--format`` asks; see `broker.cli.rendering`.

Tables and sentences: fitted to a terminal, separated by tabs in a pipe, CSV or every column when asked.

JSON lines, for programs.

The format that the reader asked for with ``--format``.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TextIO

from broker.cli.rendering.cells import cell_text, columns_of, csv_text, escaped, is_figure, may_break, remark

if TYPE_CHECKING:
    from rich.console import Console


class Format(StrEnum):
    """``table`` as much as fits; ``json`` one object a line; ``csv`` and ``wide`` every column."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    WIDE = "wide"


chosen: ContextVar[Format] = ContextVar("format", default=Format.TABLE)
"""The format of this invocation."""

tables: ContextVar[int] = ContextVar("tables", default=0)
"""How many tables this invocation has printed."""


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


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        heading: what stands above it.
        give_up: 0 if it is always shown; else it may be missing from a narrow terminal, the largest number first.
        only_wide: shown by ``--format wide`` and in CSV only.
    """

    heading: str
    give_up: int = 0
    only_wide: bool = False


def print_table(
    columns: Sequence[str | Column],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    stream: TextIO | None = None,
) -> None:
    """Prints a table; a column in which every cell is a number is set to the right. An empty one says ``none``."""
    target, asked = stream or sys.stdout, chosen.get()
    known = [one if isinstance(one, Column) else Column(one) for one in columns]
    cells = [tuple(row) for row in rows]
    if asked is Format.CSV:
        _print_csv(known, cells, target)
        return
    if not cells:
        print("none" if title is None else f"{escaped(title)}: none", file=target)
        return
    shown = [n for n, one in enumerate(known) if asked is Format.WIDE or not one.only_wide]
    if title is not None:
        say(title, stream=target)
    if asked is Format.TABLE and not target.isatty():
        _print_tabs([known[n] for n in shown], [[row[n] for n in shown] for row in cells], target)
        return
    bodies = [_body(known[n], [row[n] for row in cells]) for n in shown]
    laid = lay_out(bodies, None if asked is Format.WIDE else terminal_width(target))
    print("\n".join(laid.lines), file=target)
    if laid.missing:
        say(f"(no room for: {', '.join(laid.missing)}; see --format wide)", stream=target)
    print(file=target)


def print_facts(facts: Iterable[tuple[str, object]], *, title: str | None = None, stream: TextIO | None = None) -> None:
    """Prints names with their values, one a line; those without a value do not appear."""
    rows = [(name, cell_text(value)) for name, value in facts if value is not None]
    print_table(("", ""), rows, title=title, stream=stream)


def say(sentence: str, *, stream: TextIO | None = None) -> None:
    """Prints a sentence, broken at blanks to fit a terminal; nothing in CSV, which has room for rows only."""
    target = stream or sys.stdout
    if chosen.get() is not Format.CSV:
        print("\n".join(wrapped(escaped(sentence), terminal_width(target))), file=target)


def terminal_width(stream: TextIO) -> int | None:
    """The columns of the terminal behind ``stream``; None for a pipe or a file."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def rows_of(objects: Iterable[Mapping[str, object]], names: Sequence[str]) -> list[tuple[object, ...]]:
    """The named values of objects, a row each; None for a name that an object has not."""
    return [tuple(one.get(name) for name in names) for one in objects]


def _body(column: Column, cells: Sequence[object]) -> Body:
    return Body(
        escaped(column.heading),
        tuple(cell_text(cell) for cell in cells),
        right=all(is_figure(cell) for cell in cells),
        breaks=all(cell is None or may_break(cell) for cell in cells),
        give_up=column.give_up,
    )


def _print_tabs(columns: Sequence[Column], cells: Sequence[Sequence[object]], stream: TextIO) -> None:
    lines = ["\t".join(cell_text(cell) for cell in row) for row in cells]
    if any(one.heading for one in columns):
        lines.insert(0, "\t".join(escaped(one.heading) for one in columns))
    print("\n".join(lines), file=stream)


def _print_csv(columns: Sequence[Column], cells: Sequence[Sequence[object]], stream: TextIO) -> None:
    if tables.get():
        stream.write("\n")
    tables.set(tables.get() + 1)
    writer = csv.writer(stream, lineterminator="\n")
    if any(one.heading for one in columns):
        writer.writerow([escaped(one.heading) for one in columns])
    writer.writerows([csv_text(cell) for cell in row] for row in cells)


def print_json(document: object, stream: TextIO | None = None) -> None:
    """Prints one object on one line, in ASCII, as the API gives it, see :func:`broker.api.presenting.plain`."""
    from broker.api.plain import plain  # takes long to import

    print(json.dumps(plain(document), allow_nan=False, separators=(", ", ": ")), file=stream or sys.stdout)


__all__ = ["console", "escaped", "print_json", "print_table", "remark"]

_WIDTH_OF_PIPES = 200


def console(stream: TextIO | None = None) -> Console:
    """A console on ``stream`` (stdout) that takes text literally; wide when it is no terminal."""
    from rich.console import Console  # takes long to import

    target = stream or sys.stdout
    return Console(
        file=target, markup=False, highlight=False, emoji=False, width=None if target.isatty() else _WIDTH_OF_PIPES
    )

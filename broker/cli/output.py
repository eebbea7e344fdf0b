"""Output of commands in the format chosen with ``--format``: tables, sentences, records, CSV and JSON lines.

Tables and sentences are fitted to a terminal and separated by tabs in a pipe; JSON lines are for programs. Single
values become text in `broker.cli.rendering`.
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
    """Output: ``table`` prints what fits; ``json`` one object a line; ``csv`` and ``wide`` print every column."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    WIDE = "wide"


chosen: ContextVar[Format] = ContextVar("format", default=Format.TABLE)
"""Output format of this invocation."""

tables: ContextVar[int] = ContextVar("tables", default=0)
"""Number of tables this invocation has printed."""


GAP = "  "
NARROWEST_PROSE = 24
"""Minimum width of a prose column."""


@dataclass(frozen=True)
class ColumnText:
    """One column of a table as text.

    Attributes:
        heading: heading, which may be broken at its blanks.
        cells: text of each row.
        right: whether to align to the right.
        breaks: whether cells may be broken at a blank.
        drop_order: 0 for a column that is always shown; if space is short, the largest goes first.
    """

    heading: str
    cells: tuple[str, ...]
    right: bool = False
    breaks: bool = False
    drop_order: int = 0


@dataclass(frozen=True)
class TableLayout:
    """The lines of a table, and the headings of the columns that did not fit."""

    lines: tuple[str, ...]
    missing: tuple[str, ...] = ()


def lay_out(columns: Sequence[ColumnText], width: int | None) -> TableLayout:
    """Lay out a table in ``width`` terminal columns; None for any width."""
    if width is None:
        return TableLayout(tuple(_set(columns, [_natural(column) for column in columns])))
    columns_left, missing = list(columns), []
    while _total([_least(column) for column in columns_left]) > width:
        spare = max(
            (column for column in columns_left if column.drop_order), key=lambda column: column.drop_order, default=None
        )
        if spare is None:
            return TableLayout(tuple(records(columns, width)))
        columns_left.remove(spare)
        missing.append(spare.heading)
    order = [column.heading for column in columns]
    return TableLayout(tuple(_set(columns_left, _fitted(columns_left, width))), tuple(sorted(missing, key=order.index)))


def records(columns: Sequence[ColumnText], width: int | None) -> list[str]:
    """Lay out one record a row: a line for each column with a value, and an empty line between rows."""
    names = max((columns_of(column.heading) for column in columns), default=0)
    lines: list[str] = []
    for row in range(len(columns[0].cells) if columns else 0):
        lines += [""] if row else []
        for column in columns:
            if column.cells[row]:
                room = None if width is None else max(NARROWEST_PROSE, width - names - len(GAP))
                first, *continuation = wrapped(column.cells[row], room)
                lines.append(f"{_padded(column.heading, names, False)}{GAP}{first}".rstrip())
                lines += [f"{' ' * names}{GAP}{more}" for more in continuation]
    return lines


def wrapped(text: str, width: int | None) -> list[str]:
    """Wrap ``text`` to lines of at most ``width``, only at blanks; a longer word stays whole."""
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


def _natural(column: ColumnText) -> int:
    return max(columns_of(column.heading), _widest(column.cells))


def _least(column: ColumnText) -> int:
    cells = _widest(column.cells)
    if column.breaks:
        cells = max(min(cells, NARROWEST_PROSE), max(map(_longest_word, column.cells), default=0))
    return max(_longest_word(column.heading), cells)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * max(0, len(widths) - 1)


def _fitted(columns: Sequence[ColumnText], width: int) -> list[int]:
    """Return widths that fit, by narrowing the widest column that can give way until the table fits."""
    widths, least = [_natural(column) for column in columns], [_least(column) for column in columns]
    while (excess := _total(widths) - width) > 0:
        widest = max((n for n in range(len(widths)) if widths[n] > least[n]), key=widths.__getitem__)
        narrower = [widths[n] for n in range(len(widths)) if widths[n] > least[n] and widths[n] < widths[widest]]
        floor = max(least[widest], max(narrower, default=0) - 1)
        widths[widest] -= min(excess, max(1, widths[widest] - floor))
    return widths


def _set(columns: Sequence[ColumnText], widths: Sequence[int]) -> list[str]:
    lines: list[str] = []
    if any(column.heading for column in columns):
        heads = [replace(column, cells=(column.heading,), breaks=True) for column in columns]
        lines += _row(heads, widths, 0)
        lines.append(GAP.join("-" * size for size in widths).rstrip())
    for row in range(len(columns[0].cells) if columns else 0):
        lines += _row(columns, widths, row)
    return lines


def _row(columns: Sequence[ColumnText], widths: Sequence[int], row: int) -> list[str]:
    cells = [
        wrapped(column.cells[row], size if column.breaks else None)
        for column, size in zip(columns, widths, strict=True)
    ]
    return [
        GAP.join(
            _padded(cell[line] if line < len(cell) else "", size, column.right)
            for column, size, cell in zip(columns, widths, cells, strict=True)
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
        heading: text of the heading.
        drop_order: 0 if always shown; else the column may be dropped on a narrow terminal, the largest number first.
        only_wide: whether only ``--format wide`` and CSV show it.
    """

    heading: str
    drop_order: int = 0
    only_wide: bool = False


def print_table(
    columns: Sequence[str | Column],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    stream: TextIO | None = None,
) -> None:
    """Print a table; a column with only numbers is aligned to the right. An empty table prints ``none``."""
    target, output_format = stream or sys.stdout, chosen.get()
    known_columns = [column if isinstance(column, Column) else Column(column) for column in columns]
    cells = [tuple(row) for row in rows]
    if output_format is Format.CSV:
        _print_csv(known_columns, cells, target)
        return
    if not cells:
        print("none" if title is None else f"{escaped(title)}: none", file=target)
        return
    shown_indices = [
        n for n, column in enumerate(known_columns) if output_format is Format.WIDE or not column.only_wide
    ]
    if title is not None:
        say(title, stream=target)
    if output_format is Format.TABLE and not target.isatty():
        _print_tabs(
            [known_columns[n] for n in shown_indices], [[row[n] for n in shown_indices] for row in cells], target
        )
        return
    texts = [_column_text(known_columns[n], [row[n] for row in cells]) for n in shown_indices]
    layout = lay_out(texts, None if output_format is Format.WIDE else terminal_width(target))
    print("\n".join(layout.lines), file=target)
    if layout.missing:
        say(f"(no room for: {', '.join(layout.missing)}; see --format wide)", stream=target)
    print(file=target)


def print_facts(facts: Iterable[tuple[str, object]], *, title: str | None = None, stream: TextIO | None = None) -> None:
    """Print names with their values, one a line; those without a value are omitted."""
    rows = [(name, cell_text(value)) for name, value in facts if value is not None]
    print_table(("", ""), rows, title=title, stream=stream)


def say(sentence: str, *, stream: TextIO | None = None) -> None:
    """Print a sentence, wrapped at blanks to fit a terminal; omitted in CSV, which has room for rows only."""
    target = stream or sys.stdout
    if chosen.get() is not Format.CSV:
        print("\n".join(wrapped(escaped(sentence), terminal_width(target))), file=target)


def terminal_width(stream: TextIO) -> int | None:
    """Return the width in columns of the terminal behind ``stream``; None for a pipe or a file."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def rows_of(objects: Iterable[Mapping[str, object]], names: Sequence[str]) -> list[tuple[object, ...]]:
    """Return the named values of objects, one row each; None for a name that an object lacks."""
    return [tuple(item.get(name) for name in names) for item in objects]


def _column_text(column: Column, cells: Sequence[object]) -> ColumnText:
    return ColumnText(
        escaped(column.heading),
        tuple(cell_text(cell) for cell in cells),
        right=all(is_figure(cell) for cell in cells),
        breaks=all(cell is None or may_break(cell) for cell in cells),
        drop_order=column.drop_order,
    )


def _print_tabs(columns: Sequence[Column], cells: Sequence[Sequence[object]], stream: TextIO) -> None:
    lines = ["\t".join(cell_text(cell) for cell in row) for row in cells]
    if any(column.heading for column in columns):
        lines.insert(0, "\t".join(escaped(column.heading) for column in columns))
    print("\n".join(lines), file=stream)


def _print_csv(columns: Sequence[Column], cells: Sequence[Sequence[object]], stream: TextIO) -> None:
    if tables.get():
        stream.write("\n")
    tables.set(tables.get() + 1)
    writer = csv.writer(stream, lineterminator="\n")
    if any(column.heading for column in columns):
        writer.writerow([escaped(column.heading) for column in columns])
    writer.writerows([csv_text(cell) for cell in row] for row in cells)


def print_json(document: object, stream: TextIO | None = None) -> None:
    """Print one object on one line, in ASCII, as the API returns it, see :func:`broker.api.presenting.plain`."""
    from broker.api.plain import plain  # takes long to import

    print(json.dumps(plain(document), allow_nan=False, separators=(", ", ": ")), file=stream or sys.stdout)


__all__ = ["console", "escaped", "print_json", "print_table", "remark"]

_WIDTH_OF_PIPES = 200


def console(stream: TextIO | None = None) -> Console:
    """Return a console on ``stream`` (stdout) that prints text literally; wide if it is not a terminal."""
    from rich.console import Console  # takes long to import

    target = stream or sys.stdout
    return Console(
        file=target, markup=False, highlight=False, emoji=False, width=None if target.isatty() else _WIDTH_OF_PIPES
    )

"""Tables and sentences: fitted to a terminal, separated by tabs in a pipe, CSV or every column when asked."""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from broker.cli.rendering import output_format
from broker.cli.rendering.cells import cell_text, csv_text, is_figure, may_break
from broker.cli.rendering.layout import Body, lay_out, wrapped
from broker.cli.rendering.output_format import Format
from broker.cli.rendering.visible_text import escaped


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
    target, asked = stream or sys.stdout, output_format.chosen.get()
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
    if output_format.chosen.get() is not Format.CSV:
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
    if output_format.tables.get():
        stream.write("\n")
    output_format.tables.set(output_format.tables.get() + 1)
    writer = csv.writer(stream, lineterminator="\n")
    if any(one.heading for one in columns):
        writer.writerow([escaped(one.heading) for one in columns])
    writer.writerows([csv_text(cell) for cell in row] for row in cells)

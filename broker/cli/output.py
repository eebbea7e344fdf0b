"""What commands print: tables for people, JSON lines for programs, remarks on stderr.

Names come from strangers: control characters and marks that reorder text are escaped before they reach a terminal.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_WIDTH_OF_PIPES = 200


def escaped(value: object) -> str:
    """``value`` as text in which every character is visible and stays on its line."""
    text = "" if value is None else str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    if code < 0x100:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def console(stream: TextIO | None = None) -> Console:
    """A console on ``stream`` (stdout) that takes text literally; wide when it is no terminal."""
    target = stream or sys.stdout
    return Console(
        file=target, markup=False, highlight=False, emoji=False, width=None if target.isatty() else _WIDTH_OF_PIPES
    )


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None, stream: TextIO | None = None
) -> None:
    """Prints a table; a column in which every cell is a number is set to the right."""
    cells = [tuple(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD)
    for position, heading in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[position], int | float | None) for row in cells)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(_shown(cell)) for cell in row))
    target = console(stream)
    if title is not None:
        target.print(Text(escaped(title)))
    target.print(table)


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.6g}"
    if isinstance(cell, datetime):
        return cell.strftime("%Y-%m-%d %H:%M:%S")
    return escaped(cell)


def print_json(document: object, stream: TextIO | None = None) -> None:
    """Prints one object on one line, in ASCII.

    Raises:
        ValueError: a number is not finite.
    """
    print(json.dumps(document, default=_plain, allow_nan=False, separators=(", ", ": ")), file=stream or sys.stdout)


def _plain(value: object) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Path):
        return str(value)
    to_list = getattr(value, "tolist", None)  # numpy scalars and arrays
    if to_list is not None:
        return to_list()
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def remark(text: str) -> None:
    """Prints a line on stderr."""
    print(escaped(text), file=sys.stderr, flush=True)

"""Stored work as text, cut into its columns without parsing them: those of many chunks are parsed together.

The work of a chunk has a hundred columns, and most are equal in all chunks of a cycle. Parsed body by body, each of
these values would be created anew for each chunk; parsed column by column, each distinct text is parsed once.

A text is cut at the characters ``],"``. Whether these begin a column, rather than being part of a text or an object,
shows in the names and the number of the columns, which must equal those of the other chunks; else the body is parsed
whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pydantic_core import from_json

_BEGIN, _NAMED = b'{"c":{"', b'":['
_INPUTS, _REPLICAS, _REST = b']},"i":{"', b']},"r":{"', b']},"v":1,"placed":'
_ANALYSIS, _CUT, _PLAN = b'},"a":{"', b',"cut":{"settings":', b'"plan":'
_COLUMN = b'],"'


def read_json(text: bytes) -> Any:
    """Parse a JSON text; texts that the fast parser refuses, such as half of a surrogate pair, take the slow one.

    Raises:
        ValueError: the text is not JSON.
    """
    try:
        return from_json(text)
    except ValueError:
        pass
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(str(error)) from error


class TextTable(Mapping[str, list[Any]]):
    """The columns of a table by name, parsed on access.

    Args:
        text: of the table, from after its first quote to before its last bracket.

    Attributes:
        columns: the text, cut into columns.
    """

    __slots__ = ("columns",)

    def __init__(self, text: bytes) -> None:
        self.columns: list[bytes] = text.split(_COLUMN)

    def __getitem__(self, name: str) -> list[Any]:
        """The values of a column."""
        begin = name.encode() + _NAMED
        for column in self.columns:
            if column.startswith(begin):
                try:
                    values: list[Any] = read_json(b"[" + column[len(begin) :] + b"]")
                except ValueError:
                    break  # it was cut in the middle
                return values
        return self.whole()[name]

    def whole(self) -> dict[str, list[Any]]:
        """All columns, decoded together, wherever the text was cut."""
        columns: dict[str, list[Any]] = read_json(b'{"' + _COLUMN.join(self.columns) + b"]}")
        return columns

    def __iter__(self) -> Iterator[str]:
        """The names, in the order in which the columns are stored."""
        return iter(self.whole())

    def __len__(self) -> int:
        return len(self.whole())


class WorkText(Mapping[str, Any]):
    """The stored work of a chunk as the object that its text describes; its parts are parsed on access.

    Attributes:
        parts: tables, and the texts of parts that are not tables.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: dict[str, TextTable | bytes]) -> None:
        self.parts = parts

    def __getitem__(self, name: str) -> Any:
        """A table, or another part."""
        part = self.parts[name]
        return read_json(part) if isinstance(part, bytes) else part

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


def cut_text(text: bytes) -> WorkText | None:
    """The work of a chunk from its text; None where the text does not have the usual form.

    That includes chunks that were decided together, and those stored without how they are cut.
    """
    chunks, _, rest = text[len(_BEGIN) :].partition(_INPUTS)
    inputs, _, rest = rest.partition(_REPLICAS)
    replicas, _, rest = rest.partition(_REST)
    placed, separator, cut = rest.partition(_CUT)
    if not (separator and text.startswith(_BEGIN) and cut.endswith(b"}}")) or _CUT in cut or _PLAN in placed:
        return None
    placed, has_analysis, analysis = placed.partition(_ANALYSIS)
    parts: dict[str, TextTable | bytes] = {
        "c": TextTable(chunks),
        "i": TextTable(inputs),
        "r": TextTable(replicas),
        "v": b"1",
        "placed": placed + b"}" if has_analysis else placed,
    }
    if has_analysis:
        parts["a"] = TextTable(analysis.removesuffix(b"]}"))
    return WorkText({**parts, "cut": separator[len(b',"cut":') :] + cut[:-1]})


class JoinedTable:
    """The columns of one table of several bodies, one body after the other.

    Args:
        tables: of the bodies, in order; all have the columns of the first.
    """

    def __init__(self, tables: Sequence[Mapping[str, list[Any]]]) -> None:
        texts = [table for table in tables if isinstance(table, TextTable)]
        joined = _of_texts(texts) if len(texts) == len(tables) else None
        self._lists = _of_plain([_plain(one) for one in tables]) if joined is None else joined

    def columns(self) -> dict[str, list[Any]]:
        """The values by name, of all bodies together."""
        return {name: list(chain.from_iterable(own)) for name, own in self._lists.items()}

    def by_body(self, name: str) -> Sequence[list[Any]]:
        """The values of a column, body by body; empty without bodies.

        Raises:
            KeyError: there is no such column.
        """
        return self._lists[name] if self._lists else ()


def _plain(table: Mapping[str, list[Any]]) -> Mapping[str, list[Any]]:
    return table.whole() if isinstance(table, TextTable) else table


def _of_plain(tables: Sequence[Mapping[str, list[Any]]]) -> dict[str, Sequence[list[Any]]]:
    names = list(tables[0]) if tables else []
    if all(list(table) == names for table in tables):
        # the usual case: the columns of all bodies have the same order, and no name has to be looked up
        return dict(zip(names, zip(*(table.values() for table in tables), strict=True), strict=True))
    return {name: [table[name] for table in tables] for name in names}


def _of_texts(tables: Sequence[TextTable]) -> dict[str, Sequence[list[Any]]] | None:
    """The columns of texts that are cut alike, each distinct text parsed once; None where they are not."""
    texts = [table.columns for table in tables]
    if len({len(table) for table in texts}) != 1:
        return None
    columns: dict[str, Sequence[list[Any]]] = {}
    for column in zip(*texts, strict=True):
        name = column[0].partition(_NAMED)[0]
        kinds = [column[0]] if column.count(column[0]) == len(column) else list(set(column))
        values = _read(name + _NAMED, kinds)
        if values is None:
            return None
        known = dict(zip(kinds, values, strict=True))
        columns[name.decode()] = values * len(column) if len(kinds) == 1 else [known[text] for text in column]
    return columns


def _read(begin: bytes, columns: Sequence[bytes]) -> list[list[Any]] | None:
    """The values of columns that begin alike; None if one does not, or ends in the middle of a value."""
    if not all(column.startswith(begin) for column in columns):
        return None
    start = len(begin)
    try:
        # no text spans the end of a line, so a text that was cut is detected
        values: list[list[Any]] = read_json(b"[[" + b"],\n[".join([column[start:] for column in columns]) + b"]]")
    except ValueError:
        return None
    return values if len(values) == len(columns) else None

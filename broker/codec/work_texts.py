"""Stored work as text, cut into its columns without reading them: those of many chunks are read together.

The work of a chunk has a hundred columns, and most hold the same in all chunks of a cycle. Read one body after the
other, each of these values is made anew for each chunk; read column by column, each text that occurs is read once.

A text is cut where the characters ``],"`` are. That these begin a column, and are no part of a text or an object, shows
in the names and the number of the columns, which have to be those of the other chunks; else the body is read whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pydantic_core import from_json

_BEGIN, _NAMED = b'{"c":{"', b'":['
_INPUTS, _REPLICAS, _REST = b']},"i":{"', b']},"r":{"', b']},"v":1,"placed":'
_ASKED, _CUT, _PLAN = b'},"a":{"', b',"cut":{"settings":', b'"plan":'
_COLUMN = b'],"'


def read_json(text: bytes) -> Any:
    """Parse a JSON text; texts that the fast parser refuses, such as half of a surrogate pair, take the slow one.

    Raises:
        ValueError: it is none.
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
    """The columns of a table by name, read when they are asked for.

    Args:
        text: of the table, from behind its first quote to before its last bracket.

    Attributes:
        columns: the text, cut.
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
                    found: list[Any] = read_json(b"[" + column[len(begin) :] + b"]")
                except ValueError:
                    break  # it was cut in the middle
                return found
        return self.whole()[name]

    def whole(self) -> dict[str, list[Any]]:
        """All columns, decoded together, wherever the text was cut."""
        found: dict[str, list[Any]] = read_json(b'{"' + _COLUMN.join(self.columns) + b"]}")
        return found

    def __iter__(self) -> Iterator[str]:
        """The names, in the order in which the columns are stored."""
        return iter(self.whole())

    def __len__(self) -> int:
        return len(self.whole())


class WorkText(Mapping[str, Any]):
    """The stored work of a chunk as the object that its text says; its parts are read when they are asked for.

    Attributes:
        parts: tables, and the text of what is no table.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: dict[str, TextTable | bytes]) -> None:
        self.parts = parts

    def __getitem__(self, name: str) -> Any:
        """A table, or what stands beside the tables."""
        part = self.parts[name]
        return read_json(part) if isinstance(part, bytes) else part

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


def cut_text(text: bytes) -> WorkText | None:
    """The work of a chunk by its text; None where that is not of the form in which chunks are stored.

    That is also so for chunks that were decided together, and for those of which it is not stored how they are cut.
    """
    chunks, _, rest = text[len(_BEGIN) :].partition(_INPUTS)
    inputs, _, rest = rest.partition(_REPLICAS)
    replicas, _, rest = rest.partition(_REST)
    placed, found, cut = rest.partition(_CUT)
    if not (found and text.startswith(_BEGIN) and cut.endswith(b"}}")) or _CUT in cut or _PLAN in placed:
        return None
    placed, is_asked, asked = placed.partition(_ASKED)
    parts: dict[str, TextTable | bytes] = {
        "c": TextTable(chunks),
        "i": TextTable(inputs),
        "r": TextTable(replicas),
        "v": b"1",
        "placed": placed + b"}" if is_asked else placed,
    }
    if is_asked:
        parts["a"] = TextTable(asked.removesuffix(b"]}"))
    return WorkText({**parts, "cut": found[len(b',"cut":') :] + cut[:-1]})


class JoinedTable:
    """The columns of one table of several bodies, one body after the other.

    Args:
        tables: of the bodies, in order; all have the columns of the first.
    """

    def __init__(self, tables: Sequence[Mapping[str, list[Any]]]) -> None:
        texts = [one for one in tables if isinstance(one, TextTable)]
        found = _of_texts(texts) if len(texts) == len(tables) else None
        self._lists = _of_plain([_plain(one) for one in tables]) if found is None else found

    def columns(self) -> dict[str, list[Any]]:
        """The values by name, of all bodies together."""
        return {name: list(chain.from_iterable(own)) for name, own in self._lists.items()}

    def by_body(self, name: str) -> Sequence[list[Any]]:
        """The values of a column, body by body; nothing without bodies.

        Raises:
            KeyError: there is no such column.
        """
        return self._lists[name] if self._lists else ()


def _plain(table: Mapping[str, list[Any]]) -> Mapping[str, list[Any]]:
    return table.whole() if isinstance(table, TextTable) else table


def _of_plain(tables: Sequence[Mapping[str, list[Any]]]) -> dict[str, Sequence[list[Any]]]:
    names = list(tables[0]) if tables else []
    if all(list(one) == names for one in tables):
        # nearly always: the columns of all bodies are in one order, and no name has to be looked up
        return dict(zip(names, zip(*(one.values() for one in tables), strict=True), strict=True))
    return {name: [one[name] for one in tables] for name in names}


def _of_texts(tables: Sequence[TextTable]) -> dict[str, Sequence[list[Any]]] | None:
    """The columns of texts that are cut alike, each text that occurs read once; None where they are not."""
    texts = [one.columns for one in tables]
    if len({len(one) for one in texts}) != 1:
        return None
    found: dict[str, Sequence[list[Any]]] = {}
    for column in zip(*texts, strict=True):
        name = column[0].partition(_NAMED)[0]
        kinds = [column[0]] if column.count(column[0]) == len(column) else list(set(column))
        values = _read(name + _NAMED, kinds)
        if values is None:
            return None
        known = dict(zip(kinds, values, strict=True))
        found[name.decode()] = values * len(column) if len(kinds) == 1 else [known[text] for text in column]
    return found


def _read(begin: bytes, columns: Sequence[bytes]) -> list[list[Any]] | None:
    """The values of columns that begin alike; None where one does not, or ends in the middle of a value."""
    if not all(column.startswith(begin) for column in columns):
        return None
    start = len(begin)
    try:
        # no text goes over the end of a line, so that one that was cut is found
        found: list[list[Any]] = read_json(b"[[" + b"],\n[".join([column[start:] for column in columns]) + b"]]")
    except ValueError:
        return None
    return found if len(found) == len(columns) else None

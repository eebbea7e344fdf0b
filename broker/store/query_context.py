"""The context of every query: the database, the instant that it refers to, and the operator's configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict

from broker.errors import NotFound, nearest
from broker.store.connection.tables import Names, TableCatalogue

Proceed = Callable[[], None]
"""Called between the steps of an evaluation; raises if the answer is no longer wanted."""
ResultT = TypeVar("ResultT")
ReadT = TypeVar("ReadT")
Evaluation = Callable[[Proceed], ResultT]
"""The evaluation that remains after all reads; it needs no connection."""


def proceed() -> None:
    """Never stop the evaluation."""


class ResponseModel(BaseModel):
    """An answer, or a part of one. Times are aware UTC; units are in the names of the fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


#: The former name, for features of other distributions.
Answer = ResponseModel


class OverTime(ResponseModel):
    """What happened from ``since`` to ``now``, in steps of ``step_s`` seconds."""

    now: datetime
    since: datetime
    step_s: float


@dataclass(frozen=True)
class QueryContext:
    """The database to query, and the instant to answer for.

    Attributes:
        connection: a connection to the database, in a read-only transaction.
        names: the schema names of the database.
        now: the instant for which answers hold (aware).
        config: folder with the operator's own configuration files; None for the shipped ones.
        cache: results cached for the rest of the transaction, by name.
    """

    connection: sa.Connection
    names: Names
    now: datetime
    config: Path | None = None
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, name: str, read: Callable[[], ReadT]) -> ReadT:
        """The result of ``read``, called once per transaction and cached under ``name``."""
        if name not in self.cache:
            self.cache[name] = read()
        answer: ReadT = self.cache[name]
        return answer

    @cached_property
    def catalogue(self) -> TableCatalogue:
        """The tables of the database."""
        return TableCatalogue.read(self.connection, self.names)


class NothingFound(NotFound):
    """Nothing has the requested name or number.

    Attributes:
        kind: what was requested: ``task``, ``queue``, ``nucleus``, ``user``, ``pool``, ``job`` and so on.
        name: as it was requested.
        nearest: similar names.
    """

    def __init__(self, kind: str, name: object, where: str, known: Iterable[str] = (), remedy: str = "") -> None:
        self.kind, self.name = kind, str(name)
        self.nearest = nearest(str(name), known)
        hint = f"did you mean {' or '.join(self.nearest)}?" if self.nearest else remedy
        super().__init__(f"there is no {kind} {str(name)[:80]}", where, hint)


def known_name(kind: str, name: str, known: Iterable[str], where: str) -> str:
    """The entry of ``known`` that matches ``name``, exactly or else ignoring case.

    Raises:
        NothingFound: there is no match; the error lists similar names.
    """
    names = list(known)
    if name in names:
        return name
    for candidate in names:
        if candidate.casefold() == name.casefold():
            return candidate
    raise NothingFound(kind, name, where, names)

"""What every question needs: the database, the instant for which it is asked, and the operator's configuration."""

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
"""Called between the steps of an evaluation; it raises where the answer is not wanted any more."""
ResultT = TypeVar("ResultT")
ReadT = TypeVar("ReadT")
Evaluation = Callable[[Proceed], ResultT]
"""What is left to evaluate once everything was read: it needs no connection."""


def proceed() -> None:
    """Nothing stops the evaluation."""


class Answer(BaseModel):
    """An answer, or a part of one. Times are aware UTC; units are in the names of the fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class OverTime(Answer):
    """What happened from ``since`` to ``now``, in steps of ``step_s`` seconds."""

    now: datetime
    since: datetime
    step_s: float


@dataclass(frozen=True)
class Asking:
    """Who is asked, and for when.

    Attributes:
        connection: to the database, in a transaction that only reads.
        names: of its schemas.
        now: the instant for which answers hold (aware).
        config: folder with configuration files of the operator's own; None for the shipped ones.
        kept: what was read already in this transaction and is asked for again, by name.
    """

    connection: sa.Connection
    names: Names
    now: datetime
    config: Path | None = None
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, name: str, read: Callable[[], ReadT]) -> ReadT:
        """What ``read`` finds, looked for once in the transaction and kept under ``name``."""
        if name not in self.kept:
            self.kept[name] = read()
        found: ReadT = self.kept[name]
        return found

    @cached_property
    def catalogue(self) -> TableCatalogue:
        """The tables that the database has."""
        return TableCatalogue.read(self.connection, self.names)


class NothingFound(NotFound):
    """There is nothing of the name or number that was asked for.

    Attributes:
        kind: what was asked for: ``task``, ``queue``, ``nucleus``, ``user``, ``pool``, ``job`` and so on.
        name: as it was asked for.
        nearest: names that are like it.
    """

    def __init__(self, kind: str, name: object, where: str, known: Iterable[str] = (), remedy: str = "") -> None:
        self.kind, self.name = kind, str(name)
        self.nearest = nearest(str(name), known)
        hint = f"did you mean {' or '.join(self.nearest)}?" if self.nearest else remedy
        super().__init__(f"there is no {kind} {str(name)[:80]}", where, hint)


def known_name(kind: str, name: str, known: Iterable[str], where: str) -> str:
    """The name among ``known`` that is meant, whatever its case.

    Raises:
        NothingFound: there is none; it says which are near.
    """
    names = list(known)
    if name in names:
        return name
    for one in names:
        if one.casefold() == name.casefold():
            return one
    raise NothingFound(kind, name, where, names)

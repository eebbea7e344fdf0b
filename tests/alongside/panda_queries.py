"""PanDA's database as `querySQL` of its task buffer shows it: tuples without names, and no details of an error."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import psycopg

from broker.alongside.model.panda_reader import Backend, PandaSchemas, ReadFailed

_BIND = re.compile(r":([a-z_]+[0-9]*)")


class PandaQueries:
    """Runs statements on PostgreSQL and returns values as Oracle's driver does.

    Attributes:
        statements: every executed statement with its binds.
        failing: a statement that contains one of these texts fails.
    """

    backend: Backend = "postgres"
    schemas = PandaSchemas("doma_panda", "doma_pandameta")

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url.replace("postgresql+psycopg", "postgresql"), autocommit=True)
        self.statements: list[tuple[str, Mapping[str, Any]]] = []
        self.failing: set[str] = set()

    def rows(self, statement: str, binds: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        self.statements.append((statement, dict(binds)))
        bind_names = set(_BIND.findall(statement))
        assert {f":{name}" for name in bind_names} == set(binds), "Oracle refuses binds that a statement does not name"
        if any(part in statement for part in self.failing):
            raise ReadFailed("no answer", statement[:80], "see JEDI's log")
        query = _BIND.sub(r"%(\1)s", statement.replace("%", "%%"))
        result = self._connection.execute(query.encode(), {name[1:]: value for name, value in binds.items()}).fetchall()
        return [tuple(map(_as_oracle, row)) for row in result]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _as_oracle(value: Any) -> Any:
    """Convert a value: numbers become Decimal, times are naive, the empty text is NULL."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(str(value))
    if isinstance(value, datetime):
        assert value.tzinfo is None
    return None if value == "" else value

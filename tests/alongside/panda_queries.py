"""PanDA's database as `querySQL` of its task buffer shows it: tuples without names, and nothing said of an error."""

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
    """Answers statements from PostgreSQL with values as Oracle's driver gives them.

    Attributes:
        asked: every statement with its binds.
        failing: parts of statements that give no answer.
    """

    backend: Backend = "postgres"
    schemas = PandaSchemas("doma_panda", "doma_pandameta")

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url.replace("postgresql+psycopg", "postgresql"), autocommit=True)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.failing: set[str] = set()

    def rows(self, statement: str, binds: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        self.asked.append((statement, dict(binds)))
        named = set(_BIND.findall(statement))
        assert {f":{name}" for name in named} == set(binds), "Oracle refuses binds that a statement does not name"
        if any(part in statement for part in self.failing):
            raise ReadFailed("no answer", statement[:80], "see JEDI's log")
        query = _BIND.sub(r"%(\1)s", statement.replace("%", "%%"))
        found = self._connection.execute(query.encode(), {name[1:]: value for name, value in binds.items()}).fetchall()
        return [tuple(map(_as_oracle, row)) for row in found]

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def _as_oracle(value: Any) -> Any:
    """Numbers are Decimal, times naive; the empty text is NULL."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(str(value))
    if isinstance(value, datetime):
        assert value.tzinfo is None
    return None if value == "" else value

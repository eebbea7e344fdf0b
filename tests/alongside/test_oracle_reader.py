"""The reader for Oracle, tested on PostgreSQL with a fake driver: bind names, options, errors. Not Oracle itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from broker.alongside.model.panda_reader import PandaSchemas, ReadFailed
from broker.alongside.statements import oracle_reader
from broker.alongside.statements.oracle_reader import OracleReader
from broker.store.connection.database import Database

SCHEMAS = PandaSchemas("doma_panda", "doma_pandameta")


class _Cursor:
    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        self._cursor, self.arraysize = cursor, 0

    def __enter__(self) -> _Cursor:
        return self

    def __exit__(self, *error: object) -> None:
        self._cursor.close()

    def execute(self, statement: str, binds: dict[str, Any]) -> None:
        assert self.arraysize > 1000
        self._cursor.execute(re.sub(r":(\w+)", r"%(\1)s", statement).encode(), binds)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._cursor.fetchall()


class _Driver:
    """The used part of ``oracledb``."""

    Error = psycopg.Error

    def __init__(self, url: str) -> None:
        self._url, self.opened, self.defaults = url, 0, SimpleNamespace(fetch_lobs=True, fetch_decimals=False)

    def connect(self, *, dsn: str, user: str, password: str) -> Any:
        assert (dsn, user, password) == ("db.example.org:1521/panda", "reader", "secret")
        self.opened += 1
        connection = psycopg.connect(self._url.replace("postgresql+psycopg", "postgresql"), autocommit=True)
        return SimpleNamespace(cursor=lambda: _Cursor(connection.cursor()), close=connection.close)


@pytest.fixture
def reading(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OracleReader, _Driver]]:
    driver = _Driver(database.url)
    monkeypatch.setattr(oracle_reader.importlib, "import_module", lambda name: driver)
    reader = OracleReader("db.example.org:1521/panda", "reader", "secret", SCHEMAS)
    yield reader, driver
    reader.close()


def test_binds_options_and_one_connection(reading: tuple[OracleReader, _Driver]) -> None:
    reader, driver = reading
    assert (driver.defaults.fetch_lobs, driver.defaults.fetch_decimals) == (False, True)
    statement = "SELECT c.name FROM doma_panda.global_shares c WHERE c.name = :name OR c.name IS NULL"
    for _ in range(2):
        assert reader.rows(statement, {":name": "none"}) == []
    assert driver.opened == 1


def test_an_error_is_reported_and_the_next_call_reconnects(reading: tuple[OracleReader, _Driver]) -> None:
    reader, driver = reading
    with pytest.raises(ReadFailed, match="not_there"):
        reader.rows("SELECT c.x FROM doma_panda.not_there c", {})
    assert reader.rows("SELECT count(*) FROM doma_panda.site c", {}) == [(0,)]
    assert driver.opened == 2


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Callable[..., None]:
        raise ImportError(name)

    monkeypatch.setattr(oracle_reader.importlib, "import_module", missing)
    with pytest.raises(ReadFailed, match="oracledb is not installed"):
        OracleReader("dsn", "user", "password", SCHEMAS)

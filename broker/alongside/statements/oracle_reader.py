"""Read PanDA's database on Oracle, with a separate account and the pure Python driver. Untried on a real Oracle."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from broker.alongside.model.panda_reader import Backend, PandaSchemas, ReadFailed

ROWS_AT_ONCE = 10_000


class OracleReader:
    """Reads through ``oracledb`` in its thin mode: no Oracle client is needed.

    Args:
        dsn: ``host:port/service``.
        user: of an account that may SELECT.
        password: of it.
        schemas: of PanDA's tables.

    Raises:
        ReadFailed: the driver is not installed.
    """

    backend: Backend = "oracle"

    def __init__(self, dsn: str, user: str, password: str, schemas: PandaSchemas) -> None:
        self.schemas = schemas
        self._account = {"dsn": dsn, "user": user, "password": password}
        try:
            self._driver: Any = importlib.import_module("oracledb")
        except ImportError as error:
            raise ReadFailed("oracledb is not installed", dsn, "pip install 'gridbroker[oracle]'") from error
        # CLOBs as text and numbers without rounding
        self._driver.defaults.fetch_lobs = False
        self._driver.defaults.fetch_decimals = True
        self._connection: Any = None

    def rows(self, statement: str, binds: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """The rows of a SELECT.

        Raises:
            ReadFailed: the database does not answer, or refuses; the next call connects anew.
        """
        try:
            if self._connection is None:
                self._connection = self._driver.connect(**self._account)
            with self._connection.cursor() as cursor:
                cursor.arraysize = ROWS_AT_ONCE
                cursor.execute(statement, {name.lstrip(":"): value for name, value in binds.items()})
                rows: list[Sequence[Any]] = cursor.fetchall()
                return rows
        except self._driver.Error as error:
            self.close()
            message = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ReadFailed(message[:300], statement[:120], "see the account's rights and the address") from error

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except self._driver.Error:
                # it was gone already
                return

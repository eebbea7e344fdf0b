"""Database addresses: parsing them, and displaying them without their secrets."""

from __future__ import annotations

import re

import sqlalchemy as sa
from sqlalchemy import exc as sa_exc

from broker.redaction import HIDDEN, SECRET_SETTINGS
from broker.store.connection.errors import BadDatabaseUrl

_DRIVER = "postgresql+psycopg"
_EXAMPLE = "write postgresql://user@host:5432/name"
_ESCAPE = "write the @ of a password as %40, its / as %2F, its ? as %3F"
_HAS_PASSWORD = re.compile(r"[^/@?]*://[^:/@?]*:")


def parse_url(url: str) -> sa.URL:
    """Parse ``url`` for SQLAlchemy with psycopg 3; a password among the settings becomes the password.

    Raises:
        BadDatabaseUrl: the address cannot be parsed, is not for PostgreSQL, or has a password with an ambiguous end.
    """
    if _HAS_PASSWORD.match(url) and url.count("@") > 1:
        raise BadDatabaseUrl("the database address has more than one @ after its password", "", _ESCAPE)
    try:
        parsed = sa.make_url(url)
    except (sa_exc.ArgumentError, ValueError):
        # The cause would show parts of a password.
        raise BadDatabaseUrl("the database address cannot be read", "", _EXAMPLE) from None
    if parsed.drivername not in ("postgresql", "postgres", _DRIVER):
        scheme = parsed.drivername if len(parsed.drivername) <= 40 else "another scheme"
        raise BadDatabaseUrl(f"not a PostgreSQL address: {scheme}://...", "", _EXAMPLE)
    setting = parsed.query.get("password")
    if setting is not None:
        password = setting if isinstance(setting, str) else setting[-1]
        parsed = parsed.difference_update_query(["password"]).set(password=password)
    return parsed.set(drivername=_DRIVER)


def shown_url(url: sa.URL) -> str:
    """``url`` for messages, with its password and secret settings hidden."""
    hidden = {name: HIDDEN for name in url.query if name.lower() in SECRET_SETTINGS}
    return url.update_query_dict(hidden).set(drivername="postgresql").render_as_string(hide_password=True)


def without_password(url: sa.URL) -> tuple[sa.URL, dict[str, str]]:
    """Split ``url`` into an address without secrets and the environment variables with which libpq gets the password.

    Returns:
        The address that other processes may see, and ``PGPASSWORD`` if there is a password.
    """
    query = {name: value for name, value in url.query.items() if name.lower() not in SECRET_SETTINGS}
    variables = {"PGPASSWORD": str(url.password)} if url.password else {}
    return sa.URL.create(url.drivername, url.username, None, url.host, url.port, url.database, query), variables

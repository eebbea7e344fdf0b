"""Classification of errors that mean a lost connection."""

from __future__ import annotations

import psycopg
from sqlalchemy import exc as sa_exc

_LOST = ("08", "57P01", "57P02", "57P03", "57P05", "25P03", "25P04")
"""SQLSTATEs (PostgreSQL documentation, appendix A) after which the session is gone. The last two are time limits of
transactions; the driver counts them as internal errors, not as operational ones."""


def sqlstate_of(error: BaseException) -> str | None:
    """The SQLSTATE of an error of SQLAlchemy or psycopg; None if it has none."""
    cause = error.orig if isinstance(error, sa_exc.DBAPIError) else error
    return cause.sqlstate if isinstance(cause, psycopg.Error) else None


def is_connection_lost(error: BaseException) -> bool:
    """Whether ``error`` (of SQLAlchemy or psycopg) means that the connection is gone."""
    if isinstance(error, sa_exc.DBAPIError):
        return bool(error.connection_invalidated) or is_connection_lost(error.orig or Exception())
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(_LOST)


def first_line(error: BaseException | None) -> str:
    """The first line of an error's message, or the name of its class if the message is empty."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__

"""What every command gets: the settings, and the database that they name."""

from __future__ import annotations

import typer

from broker.settings import Settings
from broker.store.database import Database
from broker.store.opening import connect, open_database


def settings_of(context: typer.Context) -> Settings:
    """The settings of this invocation."""
    settings = context.find_root().obj
    if not isinstance(settings, Settings):
        raise TypeError("the command was not started by broker.cli.main")
    return settings


def open_store(context: typer.Context) -> Database:
    """The database of this invocation with a current schema; a context manager that closes it."""
    settings = settings_of(context)
    return open_database(
        settings.database_url, settings.home, panda_schema=settings.panda_schema, meta_schema=settings.meta_schema
    )


def connect_store(context: typer.Context) -> Database:
    """The database of this invocation, whatever is in it; a context manager that closes it."""
    settings = settings_of(context)
    return connect(
        settings.database_url, settings.home, panda_schema=settings.panda_schema, meta_schema=settings.meta_schema
    )

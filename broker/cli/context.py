"""What every command gets: the settings, and the database that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from broker.cli.application import LazySettings

if TYPE_CHECKING:
    from broker.gdpconfig.catalogue import Catalogue
    from broker.settings import Settings
    from broker.store.connection.database import Database


def settings_of(context: typer.Context) -> Settings:
    """The settings of this invocation."""
    found = context.find_root().obj
    if not isinstance(found, LazySettings):
        raise TypeError("the command was not started by broker.cli.main")
    return found.read()


def open_store(context: typer.Context, *, make: bool = False) -> Database:
    """The database of this invocation with a current schema; a context manager that closes it.

    Args:
        context: of the command.
        make: an embedded database that is not there yet is made.

    Raises:
        NoDatabaseYet: there is none, and none is to be made.
    """
    from broker.store.connection.opening import open_database

    settings = settings_of(context)
    if not make:
        require_database(context)
    return open_database(
        settings.database_url, settings.home, panda_schema=settings.panda_schema, meta_schema=settings.meta_schema
    )


def connect_store(context: typer.Context) -> Database:
    """The database of this invocation, whatever is in it; a context manager that closes it."""
    from broker.store.connection.opening import connect

    settings = settings_of(context)
    return connect(
        settings.database_url, settings.home, panda_schema=settings.panda_schema, meta_schema=settings.meta_schema
    )


def installed_catalogue(context: typer.Context) -> Catalogue:
    """The keys of the tuning as this installation reads them, with its VO; as shipped where there is no database."""
    from broker.gdpconfig.catalogue import shipped_catalogue
    from broker.store.connection.embedded import EmbeddedServer

    settings = settings_of(context)
    if settings.database_url is None and not EmbeddedServer(settings.home).is_made:
        return shipped_catalogue()
    with connect_store(context) as database:
        return shipped_catalogue(database.names.vo)


def require_database(context: typer.Context) -> None:
    """Refuse to go on where a command would make a second, empty database.

    Raises:
        NoDatabaseYet: no database is named, and there is no embedded one.
    """
    from broker.store.connection.embedded import EmbeddedServer
    from broker.store.connection.errors import NoDatabaseYet

    settings = settings_of(context)
    if settings.database_url is None and not EmbeddedServer(settings.home).is_made:
        raise NoDatabaseYet(
            "there is no database yet",
            str(settings.home),
            "make one with `broker db init`, or name one with --db, BROKER_DATABASE_URL or BROKER_HOME",
        )

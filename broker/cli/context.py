"""The context of every command: its settings, the database that they name, instants and durations, optional packages.

:func:`query_context` reads that database at the instant of the command's clock. :func:`moment_of` and
:func:`duration` parse what is typed; :func:`require` checks for the packages of an extra.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, cast

import sqlalchemy as sa
import typer

from broker.cli.application import LazySettings
from broker.cli.rendering.cells import remark, with_age
from broker.domain.instants import aware
from broker.errors import WRONG_USAGE, BrokerError, NotFound
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext

if TYPE_CHECKING:
    from broker.gdpconfig.catalogue import Catalogue
    from broker.settings import Settings

PACKAGES = {
    "api": ("fastapi", "uvicorn", "joserfc", "prometheus_client"),
    "mcp": ("mcp", "jsonschema"),
    "simulate": ("scipy",),
    "web": ("fastapi", "uvicorn", "joserfc", "prometheus_client", "jinja2"),
}
"""The packages of an extra, by import name; the code that needs the ``simulate`` solver checks for it."""


class ExtraMissing(BrokerError):
    """A package of an extra is not installed."""


def is_installed(extra: str) -> bool:
    """Return whether the packages of an extra are installed."""
    return all(find_spec(name) is not None for name in PACKAGES[extra])


def require(extra: str) -> None:
    """Check that the packages of an extra are installed.

    Raises:
        ExtraMissing: one of them is not.
    """
    missing = [name for name in PACKAGES[extra] if find_spec(name) is None]
    if missing:
        output = f"not installed: {', '.join(missing)}"
        raise ExtraMissing(output, f"extra {extra}", f'pip install "gridbroker[{extra}]"')


NOW = "now"
SCENARIO = "scenario"
SCENARIO_IF_LOADED = "scenario, if one is loaded"
"""Default of ``--at`` for commands that decide, or show decisions."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
LONGEST = timedelta(days=3650)


class NotATime(BrokerError):
    """The text is not a time."""

    exit_status = WRONG_USAGE


class NoScenario(NotFound):
    """No scenario is loaded, so there is no scenario clock."""


class NotADuration(BrokerError):
    """The text is not a length of time."""

    exit_status = WRONG_USAGE


def duration(text: str, option: str) -> timedelta:
    """Parse a duration such as ``24h``, ``90m``, ``7d``.

    Raises:
        NotADuration: the text is not a duration, or is longer than anything is kept.
    """
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*([smhd])\s*", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= LONGEST.total_seconds():
        raise NotADuration(f"not a length of time: {text[:40]!r}", option, "write it as 24h, 90m or 7d")
    return timedelta(seconds=seconds)


def moment_of(text: str | None, database: Database, *, of_scenario: bool = False, option: str = "--at") -> datetime:
    """Return the instant denoted by ``text``: ISO 8601 (UTC without a zone), now, or scenario.

    ``now`` is always the wall clock, and ``scenario`` the clock of the loaded scenario. The clock of a scenario is
    reported on stderr.

    Args:
        text: the text typed; None if there was none.
        database: the database whose clock is the wall clock.
        of_scenario: whether None means the clock of the loaded scenario, if any: for commands that decide, or show
            decisions. Commands that change something, or judge what is running, use the wall clock.
        option: the option that holds the text.

    Raises:
        NotATime: the text is none of these.
        NoScenario: the clock of a scenario is requested, and none is loaded.
    """
    if text not in (None, NOW, SCENARIO):
        return _parsed(text, option)
    with database.begin() as connection:
        wall = connection.execute(sa.text("SELECT clock_timestamp()")).scalar_one().astimezone(UTC)
        by_scenario = text == SCENARIO or (text is None and of_scenario)
        loaded = _scenario_clock(connection) if by_scenario else None
    if loaded is None and text == SCENARIO:
        raise NoScenario("no scenario is loaded", "broker.scenario", f"leave {option} out for the wall clock")
    if loaded is None:
        return cast(datetime, wall)
    remark(f"clock: {with_age(loaded, wall)}, of the loaded scenario")
    return loaded.astimezone(UTC)


def _scenario_clock(connection: sa.Connection) -> datetime | None:
    # the module that loads scenarios takes long to import, and few commands need their clock
    from broker.store.scenarios.load_dump import read_clock

    return read_clock(connection)


def at_option(what: str, *, without: str = "the wall clock") -> Any:
    """Return the option ``--at`` of a command: the instant of ``what``, and the default without it."""
    meaning = f"{what} (UTC). now: the wall clock; scenario: the clock of the loaded scenario; without: {without}."
    return typer.Option("--at", metavar="TIME|now|scenario", help=meaning, show_default=False)


def check_time(text: str | None, option: str = "--at") -> None:
    """Check that ``text`` is an instant, before anything is opened.

    Raises:
        NotATime: it is not.
    """
    if text not in (None, NOW, SCENARIO):
        _parsed(text, option)


def end_of(text: str, now: datetime, option: str = "--until") -> datetime:
    """Return the instant at which something ends, given as an instant or as a duration from ``now``.

    Raises:
        NotATime: the text is neither, or does not denote an end.
    """
    try:
        return now + duration(text, option)
    except NotADuration:
        if text in (NOW, SCENARIO):
            raise NotATime(f"{text} is no end", option, "give a time to come, or a length such as 8h") from None
        return _parsed(text, option, "write it as a length such as 30m, 8h, 7d, or as 2026-08-01T12:00:00, in UTC")


def _parsed(
    text: str, option: str, remedy: str = "write it as 2026-08-01T12:00:00, in UTC, or as now, or scenario"
) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return aware(moment)
    except (ValueError, OverflowError) as error:
        raise NotATime(f"not a time: {text}", option, remedy) from error


def settings_of(context: typer.Context) -> Settings:
    """Return the settings of this invocation."""
    settings = context.find_root().obj
    if not isinstance(settings, LazySettings):
        raise TypeError("the command was not started by broker.cli.main")
    return settings.read()


def open_store(context: typer.Context, *, make: bool = False) -> Database:
    """Open the database of this invocation with a current schema; a context manager that closes it.

    Args:
        context: context of the command.
        make: whether to create an embedded database that does not exist yet.

    Raises:
        NoDatabaseYet: there is no database, and none is to be created.
    """
    from broker.store.connection.opening import open_database

    settings = settings_of(context)
    if not make:
        require_database(context)
    return open_database(
        settings.database_url, settings.home, panda_schema=settings.panda_schema, meta_schema=settings.meta_schema
    )


def connect_store(context: typer.Context) -> Database:
    """Open the database of this invocation, whatever it contains; a context manager that closes it."""
    from broker.store.connection.opening import connect

    settings = settings_of(context)
    return connect(
        settings.database_url, settings.home, panda_schema=settings.panda_schema, meta_schema=settings.meta_schema
    )


def installed_catalogue(context: typer.Context) -> Catalogue:
    """Return the tuning keys as this installation reads them, with its VO; the shipped ones without a database."""
    from broker.gdpconfig.catalogue import shipped_catalogue
    from broker.store.connection.embedded import EmbeddedServer

    settings = settings_of(context)
    if settings.database_url is None and not EmbeddedServer(settings.home).is_initialised:
        return shipped_catalogue()
    with connect_store(context) as database:
        return shipped_catalogue(database.names.vo)


def require_database(context: typer.Context) -> None:
    """Refuse to continue if a command would create a second, empty database.

    Raises:
        NoDatabaseYet: no database is named, and there is no embedded one.
    """
    from broker.store.connection.embedded import EmbeddedServer
    from broker.store.connection.errors import NoDatabaseYet

    settings = settings_of(context)
    if settings.database_url is None and not EmbeddedServer(settings.home).is_initialised:
        raise NoDatabaseYet(
            "there is no database yet",
            str(settings.home),
            "make one with `broker db init`, or name one with --db, BROKER_DATABASE_URL or BROKER_HOME",
        )


Json = Annotated[bool, typer.Option("--json", help="One object on one line.")]


@contextlib.contextmanager
def query_context(context: typer.Context) -> Iterator[QueryContext]:
    """Query the database of this invocation; everything is read at one instant."""
    with open_store(context) as database:
        now = moment_of(None, database, of_scenario=True)
        with database.read_snapshot() as connection:
            yield QueryContext(connection, database.names, now, settings_of(context).config)

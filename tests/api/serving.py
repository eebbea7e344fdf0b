"""A real API server on a real database for tests, and a client of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx

from broker.api.app import Parts, create_app
from broker.api.configuration import ApiConfiguration, load
from broker.api.process import pool
from broker.api.server import ApiServer, ListenOptions
from broker.resources import path
from broker.store.connection.database import Database

TOKEN = "a-token-of-this-machine-for-tests"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def shipped(**changes: object) -> ApiConfiguration:
    """The shipped configuration, with some sections replaced."""
    return ApiConfiguration.model_validate({**load(path("config/api.yaml")).model_dump(), **changes})


def utc_now() -> datetime:
    return datetime.now(UTC)


@contextlib.contextmanager
def serving(
    database: Database,
    home: Path,
    configuration: ApiConfiguration | None = None,
    *,
    parts: Parts | None = None,
    now: Callable[[], datetime] = utc_now,
    steady_s: Callable[[], float] = time.monotonic,
    folder: Path | None = None,
) -> Iterator[ApiServer]:
    """The API on ``database``, with the token ``TOKEN``."""
    settings = configuration or shipped()
    with pool(database, settings) as api_database:
        app = create_app(
            api_database,
            settings,
            home=home,
            folder=folder,
            now=now,
            steady_s=steady_s,
            parts=parts or Parts(local_token=TOKEN),
        )
        with ApiServer(app, ListenOptions(), settings.limits, app.state.front) as server:
            yield server


@contextlib.contextmanager
def client_of(server: ApiServer, headers: dict[str, str] | None = None) -> Iterator[httpx.Client]:
    """A client of the API that sends the token, or ``headers`` instead."""
    with httpx.Client(base_url=server.url, headers=BEARER if headers is None else headers, timeout=30) as client:
        yield client

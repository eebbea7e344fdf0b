"""What a route receives: the shared state of all requests, the sender of its own, and access to the query layer.

A question is answered within one short transaction, which is over before anything is sent. Requests are limited by a
token bucket for each sender, in this process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import sqlalchemy as sa
from fastapi import Depends, Path as InPath, Query
from pydantic import BeforeValidator
from starlette.requests import HTTPConnection, Request

from broker.access.policies import Identity
from broker.api.configuration import ApiConfiguration, Rate, RateSection
from broker.api.problems import Problem
from broker.domain import instants
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.query_context import QueryContext
from broker.store.scenarios.load_dump import read_clock
from broker.store.schema import migrate

T = TypeVar("T")
LARGEST_ID = 2**63 - 1
CATALOGUE_LASTS_S = 60.0
_CATALOGUE, _INSTALLATION = "catalogue", "installation"
MOST_KNOWN = 10_000
"""Maximum number of senders remembered; the least recently seen is dropped, with a full bucket."""


@dataclass
class _Bucket:
    left: float
    seen_s: float


class RateLimiter:
    """Limits requests by sender.

    Args:
        rates: rates by role.
        steady_s: a clock that never goes back, in seconds.
    """

    def __init__(self, rates: RateSection, steady_s: Callable[[], float]) -> None:
        self._rates, self._steady_s = rates, steady_s
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, identity: Identity | None, address: str, stranger: str = "anonymous") -> float:
        """Take one request of a sender; return 0, or the seconds until one is available.

        Args:
            identity: the sender; None if unknown.
            address: address of the sender.
            stranger: the rate for an address without a known sender.
        """
        rate: Rate = getattr(self._rates, stranger) if identity is None else self._rate_of(identity)
        name = f"{stranger} {address}" if identity is None else f"{identity.issuer} {identity.subject}"
        now_s = self._steady_s()
        bucket = self._buckets.pop(name, None) or _Bucket(float(rate.burst), now_s)
        bucket.left = min(float(rate.burst), bucket.left + (now_s - bucket.seen_s) * rate.per_s)
        bucket.seen_s = now_s
        self._buckets[name] = bucket
        if len(self._buckets) > MOST_KNOWN:
            self._buckets.popitem(last=False)
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / rate.per_s
        bucket.left -= 1.0
        return 0.0

    def _rate_of(self, identity: Identity) -> Rate:
        if not identity.grants:
            return self._rates.anonymous
        rates: list[Rate] = [getattr(self._rates, role.value) for role in identity.grants]
        return max(rates, key=lambda rate: rate.per_s)


Identify = Callable[[HTTPConnection], Awaitable[Identity | None]]
"""Identifies the sender of a request; None for nobody. Raises a problem for a bad token."""


@dataclass
class ApiState:
    """The state of one application.

    Attributes:
        database: a small pool with a limit for each statement; nobody holds a transaction across a request.
        configuration: content of ``config/api.yaml``.
        folder: folder of the operator's own configuration files.
        home: home folder of the broker, with the token file.
        now: the time on this host (aware).
        steady_s: a clock that never goes back.
        identify: ways to identify the sender of a request, in order; the first that succeeds counts.
        limiter: limits requests.
        parts: services that are created once, and answers reused for a time, by name.
        ending: set when the application is to end, which also ends streams.
        at_end: functions to call when the application ends.
    """

    database: Database
    configuration: ApiConfiguration
    folder: Path | None
    home: Path
    now: Callable[[], datetime]
    steady_s: Callable[[], float]
    limiter: RateLimiter
    identify: list[Identify] = field(default_factory=list)
    parts: dict[str, Any] = field(default_factory=dict)
    ending: threading.Event = field(default_factory=threading.Event)
    at_end: list[Callable[[], None]] = field(default_factory=list)


def state_of(request: Request) -> ApiState:
    """Return the state of the application that serves ``request``."""
    return cast(ApiState, request.app.state.api)


def identity_of(request: Request) -> Identity | None:
    """Return the sender of ``request``; None for a sender without a token if the route accepts one."""
    return cast("Identity | None", request.state.identity)


def editor(who: Identity | None) -> str:
    """Return the name recorded in the audit for a change.

    Raises:
        TypeError: a policy admitted a sender without a token.
    """
    if who is None:
        raise TypeError("the policy lets nobody change anything without a token")
    return who.editor


async def _state(request: Request) -> ApiState:
    return state_of(request)


async def _identity(request: Request) -> Identity | None:
    return identity_of(request)


State = Annotated[ApiState, Depends(_state)]
Who = Annotated[Identity | None, Depends(_identity)]


def _written(value: object) -> object:
    """Accept an instant as people write it; a plain number would be read as seconds since 1970."""
    if isinstance(value, str) and value.strip().lstrip("+-").replace(".", "", 1).isdecimal():
        raise ValueError("an instant is written as 2026-11-23T21:45:00Z")
    return value


Moment = Annotated[datetime, BeforeValidator(_written)]
At = Annotated[Moment | None, Query(description="Instant of the requested state (UTC without a zone); default: now.")]
TaskId = Annotated[int, InPath(ge=1, le=LARGEST_ID, description="jeditaskid")]
Name = Annotated[str, Query(max_length=200)]


@contextmanager
def query_context(api: ApiState, at: datetime | None = None) -> Iterator[QueryContext]:
    """Open the query layer for the instant ``at``; without one for that of a loaded scenario, else for now."""
    with api.database.read_snapshot() as connection:
        query = QueryContext(connection, api.database.names, _moment(connection, api, at), api.folder)
        query.__dict__["catalogue"] = _catalogue(connection, api)
        yield query


def from_cache(api: ApiState, name: str, lasts_s: float, make: Callable[[], T], by: object = None) -> T:
    """Return the result of ``make``, cached for ``lasts_s`` seconds and for the same ``by``.

    Args:
        api: the application, which caches the result.
        name: key of the cached result.
        lasts_s: how long the result is reused.
        make: computes a new result.
        by: what the result depends on; a different value causes a new result.
    """
    now_s = api.steady_s()
    cached_s, cached_by, result = api.parts.get(name, (float("-inf"), None, None))
    if cached_by != by or now_s - cached_s >= lasts_s:
        result = make()
        api.parts[name] = (now_s, by, result)
    return cast(T, result)


def installation_of(api: ApiState) -> str:
    """Return the mode of the installed schema, which is checked only once a minute as it hardly ever changes.

    Raises:
        SchemaMissing, SchemaOutdated, SchemaTooNew: as :func:`broker.store.schema.migrate.mode_of`.
    """
    return from_cache(api, _INSTALLATION, CATALOGUE_LASTS_S, lambda: migrate.mode_of(api.database))


def _catalogue(connection: sa.Connection, api: ApiState) -> TableCatalogue:
    """Return the tables in the database, which are checked only once a minute as they hardly ever change."""
    names = api.database.names
    return from_cache(api, _CATALOGUE, CATALOGUE_LASTS_S, lambda: TableCatalogue.read(connection, names))


def moment(api: ApiState, at: datetime | None = None) -> datetime:
    """Return the instant ``at``; without one that of a loaded scenario, else now."""
    with api.database.begin() as connection:
        return _moment(connection, api, at)


def _moment(connection: sa.Connection, api: ApiState, at: datetime | None) -> datetime:
    if at is None:
        return (read_clock(connection) or api.now()).astimezone(UTC)
    return aware(at)


def aware(moment: datetime) -> datetime:
    """Return an instant sent by a client in UTC; one without a zone is taken as UTC.

    Raises:
        Problem: the instant is out of range.
    """
    try:
        return instants.aware(moment)
    except OverflowError:
        raise Problem(422, "invalid_request", "the instant is out of range") from None

"""What all requests of one application share."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast

from fastapi import Depends
from starlette.requests import HTTPConnection, Request

from broker.access.roles import Identity
from broker.api.configuration import ApiConfiguration
from broker.api.rates import RateLimiter
from broker.store.connection.database import Database

Identify = Callable[[HTTPConnection], Awaitable[Identity | None]]
"""Finds out who sends a request, by what it carries; None for nobody. Raises a problem for a bad token."""


@dataclass
class ApiState:
    """One application.

    Attributes:
        database: a small pool with a limit for each statement; nobody holds a transaction across a request.
        configuration: ``config/api.yaml``.
        folder: with configuration files of the operator's own.
        home: of the broker, with the token file.
        now: the time on this host (aware).
        steady_s: a clock that never goes back.
        identify: ways to find out who sends a request, in order: the first to find somebody counts.
        limiter: of requests.
        kept: what parts of the application keep for themselves, by name.
        ending: set when the application is to end: streams end with it.
        at_end: what is to be called when the application ends.
    """

    database: Database
    configuration: ApiConfiguration
    folder: Path | None
    home: Path
    now: Callable[[], datetime]
    steady_s: Callable[[], float]
    limiter: RateLimiter
    identify: list[Identify] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    ending: threading.Event = field(default_factory=threading.Event)
    at_end: list[Callable[[], None]] = field(default_factory=list)


def state_of(request: Request) -> ApiState:
    """The state of the application that serves ``request``."""
    return cast(ApiState, request.app.state.api)


def identity_of(request: Request) -> Identity | None:
    """Who sends ``request``; None for somebody without a token where the route takes such."""
    return cast("Identity | None", request.state.identity)


def editor(who: Identity | None) -> str:
    """Who stands in the audit for a change.

    Raises:
        TypeError: a policy let somebody without a token make one.
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

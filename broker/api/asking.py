"""Questions to the query layer within one short transaction, which is over before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, cast

import sqlalchemy as sa
from fastapi import Path, Query
from pydantic import BeforeValidator

from broker.api.problems import Problem
from broker.api.state import ApiState
from broker.domain import instants
from broker.store.connection.tables import TableCatalogue
from broker.store.query_context import Asking
from broker.store.scenarios.load_dump import read_clock

LARGEST_ID = 2**63 - 1
CATALOGUE_LASTS_S = 60.0
_CATALOGUE = "catalogue"


def _written(value: object) -> object:
    """An instant as people write it; a plain number would be taken for seconds since 1970."""
    if isinstance(value, str) and value.strip().lstrip("+-").replace(".", "", 1).isdecimal():
        raise ValueError("an instant is written as 2026-11-23T21:45:00Z")
    return value


Moment = Annotated[datetime, BeforeValidator(_written)]
At = Annotated[Moment | None, Query(description="The instant for which it is asked (UTC without a zone); none: now.")]
TaskId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="jeditaskid")]
Name = Annotated[str, Query(max_length=200)]


@contextmanager
def asking(api: ApiState, at: datetime | None = None) -> Iterator[Asking]:
    """Who is asked, for the instant ``at``: without one for that of a loaded scenario, else now."""
    with api.database.read_snapshot() as connection:
        asked = Asking(connection, api.database.names, _moment(connection, api, at), api.folder)
        asked.__dict__["catalogue"] = _catalogue(connection, api)
        yield asked


def _catalogue(connection: sa.Connection, api: ApiState) -> TableCatalogue:
    """The tables that the database has: looked for once a minute, as they hardly ever change."""
    now_s = api.steady_s()
    read_s, found = api.kept.get(_CATALOGUE, (float("-inf"), None))
    if found is None or now_s - read_s > CATALOGUE_LASTS_S:
        found = TableCatalogue.read(connection, api.database.names)
        api.kept[_CATALOGUE] = (now_s, found)
    return cast(TableCatalogue, found)


def moment(api: ApiState, at: datetime | None = None) -> datetime:
    """The instant ``at``: without one that of a loaded scenario, else now."""
    with api.database.begin() as connection:
        return _moment(connection, api, at)


def _moment(connection: sa.Connection, api: ApiState, at: datetime | None) -> datetime:
    if at is None:
        return (read_clock(connection) or api.now()).astimezone(UTC)
    return aware(at)


def aware(moment: datetime) -> datetime:
    """An instant that a client gave, in UTC, which it is without a zone.

    Raises:
        Problem: it is out of range.
    """
    try:
        return instants.aware(moment)
    except OverflowError:
        raise Problem(422, "invalid_request", "the instant is out of range") from None

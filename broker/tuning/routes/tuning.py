"""Values of the tuning: read, set, remove, history, differences, roll back. A preview is a run, see the runs."""

from __future__ import annotations

from typing import Annotated

import sqlalchemy as sa
from fastapi import Header, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from broker.access.policies import READ, TUNE
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import After, Limit, Page, answer, slice_of
from broker.api.problems import Problem
from broker.api.state import State, Who, editor, moment
from broker.gdpconfig.publish import Published
from broker.tuning.answers import values
from broker.tuning.answers.canaries import MOST_MOVED, LimitedChange, proposals_of, reason_within, refusals
from broker.tuning.answers.values import KeyDetail, KeyValue, TuningChange, ValueChange
from broker.tuning.statements.gdpconfig_rows import REASON_MAX_CHARACTERS, Json, TuningEvent, TuningStore
from broker.tuning.statements.refused_changes import RefusedChange

router = guarded_router(tag="config")

Key = Annotated[str, Path(max_length=200, description="Full name of the key.")]
Vo = Annotated[
    str | None, Query(min_length=1, max_length=32, description="VO of the tasks; that of the installation without it.")
]
Version = Annotated[int, Query(ge=1, le=2**62)]
IfMatch = Annotated[
    str | None,
    Header(
        description="The version of the tuning that was seen, as in X-Tuning-Version; another one is refused (412)."
    ),
]
MOST_EVENTS = 10_000


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewValue(_Body):
    """A value for a key, and why."""

    value: Json
    reason: str = Field(min_length=1, max_length=REASON_MAX_CHARACTERS)
    may_move: int | None = Field(
        default=None,
        ge=0,
        le=MOST_MOVED,
        description="Jobs that may move at most, as the preview of this value within the last hour counts them (409).",
    )


class Rollback(_Body):
    """The version whose values are to be in force again, and why."""

    version: int = Field(ge=1, le=2**62)
    reason: str = Field(default="", max_length=REASON_MAX_CHARACTERS)


@router.get("/config", response_model=Page[KeyValue])
@allow(READ)
def list_values(
    request: Request,
    api: State,
    vo: Vo = None,
    only_set: Annotated[bool, Query(description="Only keys that a row of the table sets.")] = False,
    after: After = None,
    limit: Limit = 500,
) -> Response:
    """Every key with its value, its default, and where the value comes from."""
    found = [one for one in values.values(api.database, vo) if not only_set or one.set_by or one.bad_row]
    return answer(request, slice_of(found, after, limit))


@router.get("/config/history", response_model=Page[TuningEvent])
@allow(READ)
def list_history(
    request: Request,
    api: State,
    key: Annotated[str | None, Query(max_length=200, description="Only this key.")] = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """Who changed what, when and why; newest first."""
    with api.database.read_snapshot() as connection:
        found = values.history(connection, api.database, key, MOST_EVENTS)
    return answer(request, slice_of(found, after, limit))


@router.get("/config/refused", response_model=Page[RefusedChange])
@allow(READ)
def list_refused(
    request: Request,
    api: State,
    key: Annotated[str | None, Query(max_length=200, description="Only this key.")] = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """Refused changes, which would have moved more jobs than their editor allowed; newest first."""
    return answer(request, slice_of(refusals(api.database, key, MOST_EVENTS), after, limit))


@router.get("/config/diff", response_model=Page[ValueChange])
@allow(READ)
def diff(
    request: Request, api: State, first: Version, second: Version, after: After = None, limit: Limit = 500
) -> Response:
    """What is different between two versions."""
    return answer(request, slice_of(values.difference(api.database, first, second), after, limit))


@router.post("/config:rollback", response_model=TuningChange)
@allow(TUNE)
def roll_back(request: Request, api: State, who: Who, body: Rollback, if_match: IfMatch = None) -> Response:
    """Make every value what it was in an older version, as a new version."""
    reason = body.reason.strip() or f"back to version {body.version}"
    seen = _seen(if_match)

    def make(store: TuningStore, connection: sa.Connection) -> Published:
        return store.rollback(connection, body.version, editor=editor(who), reason=reason, expected_version=seen)

    return _changed(request, values.change(api.database, make))


@router.get("/config/{key}", response_model=KeyDetail)
@allow(READ)
def get_value(request: Request, api: State, key: Key, vo: Vo = None) -> Response:
    """One key: its value, what it means, its range, and which rule reads it."""
    found = values.value(api.database, key, vo)
    return answer(request, found, headers={"X-Tuning-Version": str(found.version)})


@router.put("/config/{key}", response_model=TuningChange)
@allow(TUNE)
def set_value(
    request: Request, api: State, who: Who, key: Key, body: NewValue, vo: Vo = None, if_match: IfMatch = None
) -> Response:
    """Set a key; running services use the value from their next cycle on."""
    _, typed = values.typed_value(key, body.value)
    seen = _seen(if_match)
    proposals = () if body.may_move is None else proposals_of({key: typed}, vo, api.database.names.vo)
    wanted = LimitedChange(proposals, body.may_move, editor(who), body.reason)
    reason = reason_within(api.database, wanted, moment(api))

    def make(store: TuningStore, connection: sa.Connection) -> Published:
        of_vo = vo or store.vo
        return store.set_value(
            connection, key, typed, editor=editor(who), reason=reason, vo=of_vo, expected_version=seen
        )

    return _changed(request, values.change(api.database, make))


@router.delete("/config/{key}", response_model=TuningChange)
@allow(TUNE)
def unset_value(
    request: Request,
    api: State,
    who: Who,
    key: Key,
    reason: Annotated[str, Query(min_length=1, max_length=REASON_MAX_CHARACTERS)],
    vo: Vo = None,
    if_match: IfMatch = None,
) -> Response:
    """Remove a value, so that the default is in force again."""
    seen = _seen(if_match)

    def make(store: TuningStore, connection: sa.Connection) -> Published:
        of_vo = vo or store.vo
        return store.unset(connection, key, editor=editor(who), reason=reason, vo=of_vo, expected_version=seen)

    return _changed(request, values.change(api.database, make))


def _seen(if_match: str | None) -> int | None:
    """The version of the tuning in ``If-Match``; None where any will do."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not text.isdecimal() or not text.isascii() or len(text) > 18:
        raise Problem(400, "bad_if_match", "If-Match must be a version of the tuning")
    return int(text)


def _changed(request: Request, change: TuningChange) -> Response:
    return answer(request, change, headers={"X-Tuning-Version": str(change.version)})

"""The tuning over HTTP: read, set, remove, history, differences, roll back. A preview is a run; see the runs."""

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
from broker.store.gdpconfig_rows import REASON_MAX_CHARACTERS, Json, TuningEvent, TuningStore
from broker.tuning.answers import values
from broker.tuning.answers.canaries import MOST_MOVED, LimitedChange, proposals_of, reason_within, refusals
from broker.tuning.answers.values import KeyDetail, KeyValue, TuningChange, ValueChange
from broker.tuning.statements.refused_changes import RefusedChange

router = guarded_router(tag="config")

Key = Annotated[str, Path(max_length=200, description="Full name of the key.")]
Vo = Annotated[
    str | None, Query(min_length=1, max_length=32, description="VO of the tasks; default: that of the installation.")
]
Version = Annotated[int, Query(ge=1, le=2**62)]
IfMatch = Annotated[
    str | None,
    Header(description="Expected version of the tuning, as in X-Tuning-Version; a different one is refused (412)."),
]
MOST_EVENTS = 10_000


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewValue(_Body):
    """A value for a key, and the reason."""

    value: Json
    reason: str = Field(min_length=1, max_length=REASON_MAX_CHARACTERS)
    may_move: int | None = Field(
        default=None,
        ge=0,
        le=MOST_MOVED,
        description="Maximum number of jobs to move, as counted by a preview of this value in the last hour (409).",
    )


class Rollback(_Body):
    """The version to restore, and the reason."""

    version: int = Field(ge=1, le=2**62)
    reason: str = Field(default="", max_length=REASON_MAX_CHARACTERS)


@router.get("/config", response_model=Page[KeyValue])
@allow(READ)
def list_values(
    request: Request,
    api: State,
    vo: Vo = None,
    only_set: Annotated[bool, Query(description="Only keys set by a row of the table.")] = False,
    after: After = None,
    limit: Limit = 500,
) -> Response:
    """List every key with its value, its default, and the source of the value."""
    listed = [entry for entry in values.values(api.database, vo) if not only_set or entry.set_by or entry.bad_row]
    return answer(request, slice_of(listed, after, limit))


@router.get("/config/history", response_model=Page[TuningEvent])
@allow(READ)
def list_history(
    request: Request,
    api: State,
    key: Annotated[str | None, Query(max_length=200, description="Only this key.")] = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List changes: who changed what, when and why, newest first."""
    with api.database.read_snapshot() as connection:
        events = values.history(connection, api.database, key, MOST_EVENTS)
    return answer(request, slice_of(events, after, limit))


@router.get("/config/refused", response_model=Page[RefusedChange])
@allow(READ)
def list_refused(
    request: Request,
    api: State,
    key: Annotated[str | None, Query(max_length=200, description="Only this key.")] = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List refused changes, which would have moved more jobs than allowed by their editor, newest first."""
    return answer(request, slice_of(refusals(api.database, key, MOST_EVENTS), after, limit))


@router.get("/config/diff", response_model=Page[ValueChange])
@allow(READ)
def diff(
    request: Request, api: State, first: Version, second: Version, after: After = None, limit: Limit = 500
) -> Response:
    """List the differences between two versions."""
    return answer(request, slice_of(values.difference(api.database, first, second), after, limit))


@router.post("/config:rollback", response_model=TuningChange)
@allow(TUNE)
def roll_back(request: Request, api: State, who: Who, body: Rollback, if_match: IfMatch = None) -> Response:
    """Restore all values of an older version, as a new version."""
    reason = body.reason.strip() or f"back to version {body.version}"
    seen = _version_seen(if_match)

    def make(store: TuningStore, connection: sa.Connection) -> Published:
        return store.rollback(connection, body.version, editor=editor(who), reason=reason, expected_version=seen)

    return _change_response(request, values.change(api.database, make))


@router.get("/config/{key}", response_model=KeyDetail)
@allow(READ)
def get_value(request: Request, api: State, key: Key, vo: Vo = None) -> Response:
    """Get a key: its value, meaning, range, and the rules that read it."""
    detail = values.value(api.database, key, vo)
    return answer(request, detail, headers={"X-Tuning-Version": str(detail.version)})


@router.put("/config/{key}", response_model=TuningChange)
@allow(TUNE)
def set_value(
    request: Request, api: State, who: Who, key: Key, body: NewValue, vo: Vo = None, if_match: IfMatch = None
) -> Response:
    """Set a key; running services use the value from their next cycle."""
    _, typed = values.typed_value(key, body.value)
    seen = _version_seen(if_match)
    proposals = () if body.may_move is None else proposals_of({key: typed}, vo, api.database.names.vo)
    change = LimitedChange(proposals, body.may_move, editor(who), body.reason)
    reason = reason_within(api.database, change, moment(api))

    def make(store: TuningStore, connection: sa.Connection) -> Published:
        of_vo = vo or store.vo
        return store.set_value(
            connection, key, typed, editor=editor(who), reason=reason, vo=of_vo, expected_version=seen
        )

    return _change_response(request, values.change(api.database, make))


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
    """Remove a value, so that the default takes effect again."""
    seen = _version_seen(if_match)

    def make(store: TuningStore, connection: sa.Connection) -> Published:
        of_vo = vo or store.vo
        return store.unset(connection, key, editor=editor(who), reason=reason, vo=of_vo, expected_version=seen)

    return _change_response(request, values.change(api.database, make))


def _version_seen(if_match: str | None) -> int | None:
    """The tuning version in ``If-Match``; None if any version will do."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not text.isdecimal() or not text.isascii() or len(text) > 18:
        raise Problem(400, "bad_if_match", "If-Match must be a version of the tuning")
    return int(text)


def _change_response(request: Request, change: TuningChange) -> Response:
    return answer(request, change, headers={"X-Tuning-Version": str(change.version)})

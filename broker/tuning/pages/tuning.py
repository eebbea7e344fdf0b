"""The pages of the tuning: values, one key and its effect, trying and setting a value, canaries, rolling back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import Path, Query, Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import OPERATE, READ, TRY, TUNE
from broker.api.guarded_route import allow
from broker.api.problems import Problem, problem_of
from broker.api.state import ApiState, State, Who, editor, moment, query_context
from broker.decisions.answers.reason_codes import is_code
from broker.errors import BrokerError
from broker.gdpconfig.publish import Published
from broker.store.gdpconfig_rows import REASON_MAX_CHARACTERS, TuningEvent, TuningStore
from broker.tuning.answers import canaries as canary_trials, values as tuning_values
from broker.tuning.answers.canaries import MOST_MOVED, LimitedChange, reason_within, refusals
from broker.tuning.pages.key_flow import canaries_of, lately_sentence, rules_that_read, ways_back
from broker.web.formats import in_path
from broker.web.rendering import Form, back_to, page_router, show, wants_json
from broker.whatif.answers import long_runs
from broker.whatif.answers.previews import moved_jobs
from broker.whatif.pages.run_pictures import before_and_after, curves, points_of
from broker.whatif.pages.runs import begin_run
from broker.whatif.statements import runs

router = page_router(tag="tuning")
Key = Annotated[str, Path(max_length=200)]
MOST_EVENTS, MOST_REFUSED, MOST_HOURS = 200, 50, 24
PREVIEWED_S = 3600.0
"""Seconds of cycles that are decided again before a value is set; more if these hold few decisions."""
MOST_CANARIES = 3
NUMBERS = ("int", "float")


class Values(BaseModel):
    """All keys with their values, and the versions of the tuning."""

    values: list[tuning_values.KeyValue]
    history: list[TuningEvent]
    canaries: list[canary_trials.CanaryAnswer]


class TriedRun(BaseModel):
    """A run that tried values of a key: its number, what was asked, who asked, when it ended."""

    id: int
    kind: str
    asked: dict[str, Any]
    subject: str
    ended_at: datetime


class KeyRuns(BaseModel):
    """The newest runs about a key: of a range of values, and of one value; null where none was done."""

    swept: TriedRun | None
    compared: TriedRun | None


@router.get("/tuning")
@allow(READ)
def list_values(request: Request, api: State, only_set: bool = False) -> Response:
    """Every key with its value, the last changes, and the canaries."""
    listed = [entry for entry in tuning_values.values(api.database) if not only_set or entry.set_by or entry.bad_row]
    with api.database.read_snapshot() as connection:
        changed = tuning_values.history(connection, api.database, None, MOST_EVENTS)
    canaries = canary_trials.tried(api.database, moment(api))
    answers = Values(values=listed, history=changed, canaries=canaries)
    versions = sorted({event.version for event in changed if event.version > 0}, reverse=True)
    return show(
        request, "tuning/tuning", answers, title="Tuning", items="values", only_set=only_set, versions=versions[:30]
    )


@router.get("/tuning/diff")
@allow(READ)
def difference(
    request: Request,
    api: State,
    first: Annotated[int, Query(ge=1, le=2**62)],
    second: Annotated[int, Query(ge=1, le=2**62)],
) -> Response:
    """The differences between two versions."""
    changes = {"changed": tuning_values.difference(api.database, first, second)}
    return show(
        request, "tuning/tuning_diff", changes, title=f"Tuning {first} against {second}", first=first, second=second
    )


@router.get("/tuning/{key}")
@allow(READ)
def one_value(request: Request, api: State, key: Key) -> Response:
    """A key: its meaning, its readers, its history, and the actions on it."""
    return _key_page(request, api, key, None)


@dataclass(frozen=True)
class RefusedForm:
    """A form that was refused.

    Attributes:
        name: name of the form: ``try``, ``sweep``, ``set`` or ``canary``.
        fields: its fields as they were typed.
        problem: why it was refused.
    """

    name: str
    fields: dict[str, str]
    problem: Problem


def _key_page(request: Request, api: ApiState, key: str, refused: RefusedForm | None) -> Response:
    tuning_value = tuning_values.value(api.database, key)
    with api.database.read_snapshot() as connection:
        changed = tuning_values.history(connection, api.database, tuning_value.key, MOST_EVENTS)
    refused_changes = refusals(api.database, tuning_value.key, MOST_REFUSED)
    with query_context(api) as query:
        rules = rules_that_read(query, tuning_value.key)
        now = query.now
    with api.database.begin() as connection:
        swept = runs.newest_about(connection, ("sweep",), tuning_value.key)
        compared = runs.newest_about(connection, ("preview", "what_if"), tuning_value.key)
    tried = KeyRuns(swept=_tried_run(swept), compared=_tried_run(compared))
    number = tuning_value.value if isinstance(tuning_value.value, int | float) else None
    points = points_of(None if swept is None else swept.result)
    picture = curves(tuning_value.key, tuning_value.unit, points, number)
    moved, of_jobs = moved_jobs(None if compared is None else compared.result)
    slopes = before_and_after(None if compared is None else compared.result)
    readers = {code for codes in tuning_value.read_by.values() for code in codes}
    linked = [code for code in sorted(readers) if is_code(code, api.folder)]
    return show(
        request,
        "tuning/tuning_key",
        {"value": tuning_value, "history": changed, "refused": refused_changes, "tried": tried},
        title=f"Tuning {tuning_value.key}",
        lately=rules,
        did=lately_sentence(rules),
        canaries=canaries_of(canary_trials.tried(api.database, now), tuning_value.key)[:MOST_CANARIES],
        ways_back=ways_back(changed, tuning_value.key),
        points=[vars(point) for point in points],
        moved=f"{moved:,} of {of_jobs:,} jobs move",
        sweepable=tuning_value.type in NUMBERS,
        linked=linked,
        not_taken=None if refused is None else {"form": refused.name, "what": _message(refused.problem)},
        typed={} if refused is None else {refused.name: refused.fields},
        status=200 if refused is None else refused.problem.status,
        curves=lambda: picture,
        before_and_after=lambda: slopes,
    )


def _message(problem: Problem) -> str:
    return "; ".join(part for part in (problem.detail or problem.code.replace("_", " "), problem.remedy) if part)


def _answer_form(
    request: Request, api: ApiState, key: str, form: tuple[str, dict[str, str]], take: Callable[[], Response]
) -> Response:
    """The response of ``take``; a form that it refuses is shown again with the typed fields.

    Args:
        request: the request to answer.
        api: the application.
        key: key of the page with the form.
        form: name and fields of the form.
        take: does what the form requests.
    """
    try:
        return take()
    except (Problem, BrokerError) as error:
        problem = problem_of(error)
        if problem.status >= 500 or problem.status in (401, 404) or wants_json(request):
            raise
        return _key_page(request, api, key, RefusedForm(*form, problem))


def _tried_run(run: runs.Run | None) -> TriedRun | None:
    if run is None or run.ended_at is None:
        return None
    return TriedRun.model_validate(run, from_attributes=True)


@router.post("/tuning:rollback")
@allow(TUNE)
def roll_back(request: Request, api: State, who: Who, fields: Form) -> Response:
    """Restore every value of an older version."""
    version, reason = int(_number(fields, "version")), _reason(fields)

    def make(store: TuningStore, connection: sa.Connection) -> Published:
        return store.rollback(connection, version, editor=editor(who), reason=reason)

    tuning_values.change(api.database, make)
    return back_to("/tuning")


@router.post("/tuning/{key}")
@allow(TUNE)
def set_value(request: Request, api: State, who: Who, key: Key, fields: Form) -> Response:
    """Set a key; running services use the value from their next cycle on."""

    def take() -> Response:
        seen = int(_number(fields, "version"))
        proposals = canary_trials.proposals_of({key: fields.get("value", "")}, None, api.database.names.vo)
        change = LimitedChange(proposals, _most_moved(fields), editor(who), _reason(fields))
        reason = reason_within(api.database, change, moment(api))

        def make(store: TuningStore, connection: sa.Connection) -> Published:
            return store.set_value(
                connection,
                key,
                proposals[0].value,
                editor=editor(who),
                reason=reason,
                vo=store.vo,
                expected_version=seen or None,
            )

        tuning_values.change(api.database, make)
        return back_to(f"/tuning/{in_path(key)}")

    return _answer_form(request, api, key, ("set", fields), take)


@router.post("/tuning/{key}/try")
@allow(TRY)
def try_value(request: Request, api: State, who: Who, key: Key, fields: Form) -> Response:
    """What the newest cycles would have decided with a value; nothing is changed."""

    def take() -> Response:
        _, typed = tuning_values.typed_value(key, fields.get("value", ""))
        return begin_run(
            api, "preview", long_runs.Preview.model_validate({"set": {key: typed}, "last_s": PREVIEWED_S}), editor(who)
        )

    return _answer_form(request, api, key, ("try", fields), take)


@router.post("/tuning/{key}/sweep")
@allow(TRY)
def try_range(request: Request, api: State, who: Who, key: Key, fields: Form) -> Response:
    """What the cycles of the last hours would have decided with each value of a range; nothing is changed."""

    def take() -> Response:
        tuning_values.typed_value(key, fields.get("from", ""))
        low, high, step = (fields.get(name, "").strip() for name in ("from", "to", "step"))
        hours = _number(fields, "hours")
        if not 0 < hours <= MOST_HOURS:
            raise Problem(422, "invalid_request", f"the hours must be above 0, and at most {MOST_HOURS}")
        ranges = [f"{key}={low}:{high}:{step}"[:200]]
        sweep = long_runs.Sweep.model_validate({"ranges": ranges, "last_s": 3600 * hours, "until": moment(api)})
        return begin_run(api, "sweep", sweep, editor(who))

    return _answer_form(request, api, key, ("sweep", fields), take)


@router.post("/tuning/{key}/canary")
@allow(OPERATE)
def try_on_share(request: Request, api: State, who: Who, key: Key, fields: Form) -> Response:
    """Try a value on a share of the tasks for some hours; it ends by itself."""

    def take() -> Response:
        proposals = canary_trials.proposals_of({key: fields.get("value", "")}, None, api.database.names.vo)
        share, hours = _number(fields, "percent") / 100, _number(fields, "hours")
        if not (0 < share < 1 and 0 < hours <= 24 * 90):
            raise Problem(422, "invalid_request", "the share must be between 0 and 100 per cent, the hours above 0")
        begin = moment(api)
        change = LimitedChange(proposals, _most_moved(fields), editor(who), _reason(fields), share)
        reason = reason_within(api.database, change, begin)
        span = (begin, begin + timedelta(hours=hours))
        canary_trials.start(api.database, proposals, share, span, editor=editor(who), reason=reason)
        return back_to("/tuning#canaries")

    return _answer_form(request, api, key, ("canary", fields), take)


@router.post("/canaries:stop")
@allow(OPERATE)
def stop_canary(request: Request, api: State, fields: Form) -> Response:
    """Stop the running canary."""
    canary_trials.stop(api.database, moment(api))
    return back_to("/tuning#canaries")


def _most_moved(fields: dict[str, str]) -> int | None:
    """The number of jobs that a form allows to move; None if the field is empty."""
    text = fields.get("moved", "").strip().replace(",", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= MOST_MOVED):
        raise Problem(
            422, "invalid_request", "jobs that may move must be a whole number", "leave it empty for no limit"
        )
    return int(text)


def _reason(fields: dict[str, str]) -> str:
    """The reason that was typed."""
    reason = fields.get("reason", "").strip()
    if not reason or len(reason) > REASON_MAX_CHARACTERS:
        raise Problem(422, "no_reason", "a change needs a reason", "say why, in a sentence")
    return reason


def _number(fields: dict[str, str], name: str) -> float:
    try:
        number = float(fields.get(name, ""))
    except ValueError:
        number = float("nan")
    if not -(2**53) < number < 2**53:
        raise Problem(422, "invalid_request", f"{name} must be a number")
    return number

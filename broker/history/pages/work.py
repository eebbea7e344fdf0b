"""Users, pools, single jobs, runs under way."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import Path, Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import READ, READ_NAMES, TRY
from broker.api.asking import LARGEST_ID, asking
from broker.api.guarded_route import allow
from broker.api.presenting import from_path
from broker.api.problems import Problem
from broker.api.state import ApiState, State, Who, editor
from broker.decisions.answers.known_reasons import cure
from broker.history.answers.job import job_answer
from broker.history.answers.user import throttle_sentences, user_answer
from broker.pools.answers.pool import pool_answer
from broker.web.formats import visible
from broker.web.pictures.over_time import Mark, timeline
from broker.web.rendering import Form, back_to, page_router, show
from broker.whatif.answers import long_runs
from broker.whatif.answers.long_runs import comparison_sentence
from broker.whatif.pages.run_pictures import before_and_after, curves, points_of
from broker.whatif.routes.runs import RunDetail, queue_of
from broker.whatif.statements import runs

router = page_router(tag="work")
InPath = Annotated[str, Path(min_length=1, max_length=200)]
Id = Annotated[int, Path(ge=1, le=LARGEST_ID)]


@router.get("/users/{user}")
@allow(READ_NAMES)
def one_user(request: Request, api: State, user: InPath) -> Response:
    """A user: tasks, what throttles them, and who can do something."""
    with asking(api) as asked:
        found = user_answer(asked, from_path(user))
    words = list(throttle_sentences(found))
    cures = {code: cure(code) for code in found.advice}
    return show(request, "user", found, title=f"User {visible(found.user)}", items="tasks", words=words, cures=cures)


@router.get("/pools/{pool}")
@allow(READ)
def one_pool(request: Request, api: State, pool: InPath) -> Response:
    """A SubmitPool with the queues that meet it."""
    with asking(api) as asked:
        found = pool_answer(asked, pool)
    return show(request, "pool", found, title=f"Pool {found.pool_id}", items="queues")


@router.get("/jobs/{pandaid}")
@allow(READ)
def one_job(request: Request, api: State, pandaid: Id) -> Response:
    """A job: where it is, and what happened to it."""
    with asking(api) as asked:
        found = job_answer(asked, pandaid)
    marks = [Mark(one.at, one.event, f"{one.status or ''} {one.rule or ''} {one.queue or ''}") for one in found.steps]
    drawn = timeline(marks)
    return show(request, "job", found, title=f"Job {pandaid}", items="steps", picture=lambda: drawn)


@router.get("/runs/{run}")
@allow(READ)
def one_run(request: Request, api: State, run: Id) -> Response:
    """A run: how far it is, and what came of it."""
    with api.database.begin() as connection:
        found = runs.find(connection, run)
    if found is None:
        raise Problem(404, "no_such_run", f"there is no run {run}")
    detail = RunDetail(**{name: getattr(found, name) for name in RunDetail.model_fields})
    result = None if detail.result is None else json.dumps(detail.result, indent=1, sort_keys=True)
    summary = (detail.result or {}).get("summary")
    ended = detail.state in ("done", "failed", "cancelled")
    points, drawn = points_of(detail.result), before_and_after(detail.result)
    keys = [*detail.asked.get("set", ()), *(one.partition("=")[0] for one in detail.asked.get("ranges", ()))]
    pictures = curves(keys[0] if keys else "", "", points, None)
    return show(
        request,
        "run",
        detail,
        title=f"Run {run}: {detail.kind}",
        result=result,
        sentence=None if summary is None else comparison_sentence(summary),
        ended=ended,
        keys=keys,
        points=[vars(one) for one in points],
        curves=lambda: pictures,
        before_and_after=lambda: drawn,
    )


@router.post("/replays")
@allow(TRY)
def replay(request: Request, api: State, who: Who, fields: Form) -> Response:
    """Decide again what was decided on one snapshot, and compare it to the byte."""
    asked = long_runs.Replay.model_validate({"snapshot": fields.get("snapshot", "")[:200]})
    return begin_run(api, "replay", asked, editor(who))


def begin_run(api: ApiState, kind: str, asked: BaseModel, subject: str) -> Response:
    """Have a run decided in the background, and show how far it is.

    Raises:
        Problem: too many wait already.
    """
    long_runs.check(asked, api.database.names.vo)
    with api.database.begin() as connection:
        if runs.waiting(connection) >= api.configuration.runs.waiting:
            raise Problem(503, "too_many_runs", "too many runs wait already", headers={"Retry-After": "60"})
        number = runs.add(connection, kind, asked.model_dump(mode="json"), subject)
    queue_of(api).wake()
    return back_to(f"/runs/{number}")

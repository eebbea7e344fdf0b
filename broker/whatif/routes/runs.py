"""Runs: what-ifs, sweeps, previews and replays, which take minutes; their progress, results and end.

Simulations are listed with them; their figures have routes of their own.
"""

from __future__ import annotations

import threading
from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import READ, TRY
from broker.api.guarded_route import V1, allow, guarded_router
from broker.api.presenting import After, Limit, Page, answer, key_of, page_of
from broker.api.problems import Problem
from broker.api.state import LARGEST_ID, ApiState, State, Who, editor
from broker.whatif.answers import long_runs
from broker.whatif.routes.run_queue import RunQueue
from broker.whatif.statements import runs
from broker.whatif.statements.runs import Run, RunLine

router = guarded_router(tag="runs")

RunId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
_NAME = "runs"
_queue_lock = threading.Lock()


class RunDetail(RunLine):
    """A run with its request and result.

    Attributes:
        asked: request as it was submitted.
        result: result; null until the run is done.
        problem: why the run failed; null otherwise.
    """

    asked: dict[str, Any]
    result: dict[str, Any] | None
    problem: dict[str, Any] | None


@router.post("/what-if", response_model=RunLine, status_code=202)
@allow(TRY)
def start_what_if(request: Request, api: State, who: Who, body: long_runs.WhatIf) -> Response:
    """Decide stored cycles again with other values or rules."""
    return _submit(request, api, "what_if", body, editor(who))


@router.post("/sweep", response_model=RunLine, status_code=202)
@allow(TRY)
def start_sweep(request: Request, api: State, who: Who, body: long_runs.Sweep) -> Response:
    """Decide stored cycles again with each value of a range."""
    return _submit(request, api, "sweep", body, editor(who))


@router.post("/config:preview", response_model=RunLine, status_code=202)
@allow(TRY)
def start_preview(request: Request, api: State, who: Who, body: long_runs.Preview) -> Response:
    """Preview a value on the newest cycles before it is set; nothing is changed."""
    return _submit(request, api, "preview", body, editor(who))


@router.post("/replay", response_model=RunLine, status_code=202)
@allow(TRY)
def start_replay(request: Request, api: State, who: Who, body: long_runs.Replay) -> Response:
    """Decide stored cycles again and compare the decisions to the byte."""
    return _submit(request, api, "replay", body, editor(who))


@router.get("/runs", response_model=Page[RunLine])
@allow(READ)
def list_runs(request: Request, api: State, after: After = None, limit: Limit = 50) -> Response:
    """List runs, newest first."""
    before = key_of(after, (int,))
    with api.database.begin() as connection:
        newest = runs.newest(connection, limit + 1, None if before is None else before[0])
    page = page_of([_line(one) for one in newest], limit, lambda line: [line.id])
    return answer(request, page)


@router.get("/runs/{run}", response_model=RunDetail)
@allow(READ)
def get_run(request: Request, api: State, run: RunId) -> Response:
    """Get a run: its progress and result."""
    return answer(request, _detail(_existing_run(api, run)))


@router.post("/runs/{run}:cancel", response_model=RunDetail)
@allow(TRY)
def cancel_run(request: Request, api: State, run: RunId) -> Response:
    """Cancel a run that waits or is under way."""
    _existing_run(api, run)
    with api.database.begin() as connection:
        runs.cancel(connection, run)
    queue_of(api).wake()
    return answer(request, _detail(_existing_run(api, run)))


def queue_of(api: ApiState) -> RunQueue:
    """The queue of an application, started at the first request."""
    with _queue_lock:
        queue = api.parts.get(_NAME)
        if not isinstance(queue, RunQueue):
            queue = api.parts[_NAME] = RunQueue(api)
            api.at_end.append(queue.stop)
            queue.start()
        return queue


def _submit(request: Request, api: ApiState, kind: str, body: BaseModel, subject: str) -> Response:
    long_runs.check(body, api.database.names.vo, api.folder)
    with api.database.begin() as connection:
        if runs.waiting(connection) >= api.configuration.runs.waiting:
            raise Problem(503, "too_many_runs", "too many runs wait already", headers={"Retry-After": "60"})
        number = runs.add(connection, kind, body.model_dump(mode="json"), subject)
    queue_of(api).wake()
    return answer(request, _line(_existing_run(api, number)), status=202, headers={"Location": f"{V1}/runs/{number}"})


def _existing_run(api: ApiState, run: int) -> Run:
    with api.database.begin() as connection:
        stored = runs.find(connection, run)
    if stored is None:
        raise Problem(404, "no_such_run", f"there is no run {run}")
    return stored


def _line(run: Run) -> RunLine:
    return RunLine(**{name: getattr(run, name) for name in RunLine.model_fields})


def _detail(run: Run) -> RunDetail:
    return RunDetail(**{name: getattr(run, name) for name in RunDetail.model_fields})

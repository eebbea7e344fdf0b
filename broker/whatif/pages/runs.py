"""Pages of runs: what was decided again or simulated, and each with its progress and result."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated

from fastapi import Path, Query, Response
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import READ, TRY
from broker.api.guarded_route import allow
from broker.api.problems import Problem
from broker.api.state import LARGEST_ID, ApiState, State, Who, editor, moment
from broker.web.formats import ago, shown, state
from broker.web.list_page import link_to, show_list
from broker.web.rendering import Form, back_to, page_router, show
from broker.whatif.answers import long_runs
from broker.whatif.answers.long_runs import comparison_sentence
from broker.whatif.pages.run_pictures import before_and_after, curves, points_of
from broker.whatif.routes.runs import RunDetail, queue_of
from broker.whatif.statements import runs

router = page_router(tag="runs")
Id = Annotated[int, Path(ge=1, le=LARGEST_ID)]
RUNS_OF_A_PAGE = 100


class Runs(BaseModel):
    """What was decided again or simulated, the newest first."""

    now: datetime
    runs: list[runs.RunLine]


@router.get("/runs")
@allow(READ)
def list_runs(
    request: Request, api: State, before: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None
) -> Response:
    """What was tried: previews, sweeps, replays, simulations."""
    now = moment(api)
    with api.database.begin() as connection:
        newest_runs = runs.newest(connection, RUNS_OF_A_PAGE + 1, before)
    lines = [runs.RunLine(**{name: getattr(run, name) for name in runs.RunLine.model_fields}) for run in newest_runs]
    more = f"/runs?before={lines[RUNS_OF_A_PAGE - 1].id}" if len(lines) > RUNS_OF_A_PAGE else None
    return show_list(
        request,
        Runs(now=now, runs=lines[:RUNS_OF_A_PAGE]),
        "runs",
        "Runs",
        "Decisions that were made again with other values, replays and simulations; none of them changes anything.",
        ("Run|n", "Kind", "State", "Done|nh", "By|h", "Asked for|n"),
        lambda run: (
            link_to(f"/runs/{run.id}", run.id),
            run.kind.replace("_", " "),
            state(run.state),
            shown(run.done),
            run.subject,
            ago(run.created_at, now),
        ),
        "Nothing was tried yet. The page of a key has a preview.",
        more,
    )


@router.get("/runs/{run}")
@allow(READ)
def one_run(request: Request, api: State, run: Id) -> Response:
    """A run: how far it is, and what came of it."""
    with api.database.begin() as connection:
        row = runs.find(connection, run)
    if row is None:
        raise Problem(404, "no_such_run", f"there is no run {run}")
    detail = RunDetail(**{name: getattr(row, name) for name in RunDetail.model_fields})
    result = None if detail.result is None else json.dumps(detail.result, indent=1, sort_keys=True)
    summary = (detail.result or {}).get("summary")
    ended = detail.state in ("done", "failed", "cancelled")
    points, picture_of_result = points_of(detail.result), before_and_after(detail.result)
    keys = [*detail.asked.get("set", ()), *(text.partition("=")[0] for text in detail.asked.get("ranges", ()))]
    pictures = curves(keys[0] if keys else "", "", points, None)
    return show(
        request,
        "whatif/run",
        detail,
        title=f"Run {run}: {detail.kind}",
        result=result,
        sentence=None if summary is None else comparison_sentence(summary),
        ended=ended,
        keys=keys,
        points=[vars(point) for point in points],
        curves=lambda: pictures,
        before_and_after=lambda: picture_of_result,
    )


@router.post("/replays")
@allow(TRY)
def replay(request: Request, api: State, who: Who, fields: Form) -> Response:
    """Decide again what was decided on one snapshot, and compare it to the byte."""
    parameters = long_runs.Replay.model_validate({"snapshot": fields.get("snapshot", "")[:200]})
    return begin_run(api, "replay", parameters, editor(who))


def begin_run(api: ApiState, kind: str, parameters: BaseModel, subject: str) -> Response:
    """Start a run in the background and show its progress.

    Raises:
        Problem: too many runs are already waiting.
    """
    long_runs.check(parameters, api.database.names.vo, api.folder)
    with api.database.begin() as connection:
        if runs.waiting(connection) >= api.configuration.runs.waiting:
            raise Problem(503, "too_many_runs", "too many runs wait already", headers={"Retry-After": "60"})
        number = runs.add(connection, kind, parameters.model_dump(mode="json"), subject)
    queue_of(api).wake()
    return back_to(f"/runs/{number}")

"""Forecasts of starts, over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import answer
from broker.api.state import At, Name, State, TaskId, query_context
from broker.forecasts.answers.check import ForecastCheck, forecast_check
from broker.forecasts.answers.forecasts import ForecastLines, Kind, forecast_list, queue_forecasts
from broker.forecasts.answers.sooner import TaskForecast, task_forecast

router = guarded_router(tag="forecasts")


@router.get("/forecasts", response_model=ForecastLines)
@allow(READ)
def list_forecasts(
    request: Request,
    api: State,
    kind: Annotated[Kind, Query(description="Lines at queues, waiting tasks, or kinds of task.")] = "task_kind",
) -> Response:
    """List the newest forecasts of when waiting work will start, latest start first."""
    with query_context(api) as query:
        forecasts = forecast_list(query, kind)
    return answer(request, forecasts, items="lines")


@router.get("/forecasts/check", response_model=ForecastCheck)
@allow(READ)
def get_forecast_check(
    request: Request,
    api: State,
    days: Annotated[float, Query(gt=0, le=365, description="Period of the forecasts, in days.")] = 14.0,
    queue: Name | None = None,
    at: At = None,
) -> Response:
    """Measure forecast accuracy: coverage of the 80 % interval, and loss relative to the usual wait."""
    with query_context(api, at) as query:
        result = forecast_check(query, days=days, queue=queue)
    return answer(request, result, items="verdicts")


@router.get("/forecasts/tasks/{task}", response_model=TaskForecast)
@allow(READ)
def get_task_forecast(request: Request, api: State, task: TaskId) -> Response:
    """Forecast when the next job of a task will start, and show what would make it sooner."""
    with query_context(api) as query:
        forecast = task_forecast(query, task)
    return answer(request, forecast)


@router.get("/forecasts/queues/{queue}", response_model=ForecastLines)
@allow(READ)
def get_queue_forecasts(request: Request, api: State, queue: Annotated[str, Path(max_length=200)]) -> Response:
    """Forecast when jobs that reach a queue now will start, by share."""
    with query_context(api) as query:
        forecasts = queue_forecasts(query, queue)
    return answer(request, forecasts, items="lines")

"""The page of forecasts: when work will start, and how good forecasts were."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.state import State, query_context
from broker.forecasts.answers.check import ForecastCheck, forecast_check
from broker.forecasts.answers.forecasts import ForecastLine, ForecastLines, Kind, forecast_list
from broker.forecasts.model.wording import duration
from broker.web.rendering import page_router, show

router = page_router(tag="forecasts")
_NAMES: dict[Kind, str] = {
    "task_kind": "Tasks submitted now",
    "task": "Waiting tasks",
    "queue": "Jobs that come to queues",
}


class ForecastsPage(ForecastLines):
    """The lines of a kind, and what came of forecasts."""

    check: ForecastCheck


@router.get("/forecasts")
@allow(READ)
def show_forecasts(
    request: Request,
    api: State,
    kind: Annotated[Kind, Query(description="Lines at queues, waiting tasks, or kinds of tasks.")] = "task_kind",
) -> Response:
    """When waiting work will start, those that start last first."""
    with query_context(api) as query:
        forecasts = forecast_list(query, kind)
        check = forecast_check(query)
    page = ForecastsPage(**{name: getattr(forecasts, name) for name in ForecastLines.model_fields}, check=check)
    return show(
        request,
        "forecasts/forecasts",
        page,
        title="When it will start",
        listed=forecasts.lines,
        sentence=forecasts_sentence(forecasts, check),
        names=_NAMES,
        times={
            one.subject: [_time(one, value) for value in (one.p10_s, one.p50_s, one.p90_s)] for one in forecasts.lines
        },
        longest=max((one.p50_s for one in forecasts.lines if one.p50_s), default=1.0),
    )


def _time(one: ForecastLine, value: float | None) -> str:
    if one.unknown:
        return ""
    return "later" if value is None else duration(value)


def forecasts_sentence(forecasts: ForecastLines, check: ForecastCheck) -> str:
    """How much is known, and how good it was. Pure."""
    if not forecasts.lines:
        return "Nothing was told yet: see the agent forecasts."
    known = [one for one in forecasts.lines if not one.unknown]
    count = f"{len(known):,} of {len(forecasts.lines):,} starts are known."
    verdict = next((one for one in check.verdicts if one.name == "all"), None)
    if verdict is None or verdict.covered_percent is None:
        return f"{count} No forecast was judged yet."
    covered = f"{verdict.covered_percent:g} % lay between p10 and p90; {verdict.meant_percent:g} % are meant"
    return f"{count} Of {verdict.resolved:,} that were judged, {covered}."

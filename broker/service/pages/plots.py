"""Data of plots over time with the frames that they are drawn in; the page that shows one has it as a picture too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import Path, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.presenting import answer
from broker.api.state import At, State, asking
from broker.domain.rejection_counts import unified_of
from broker.grid.answers.queue_jobs import QueueJobs, queue_jobs
from broker.service.answers.overview import Activity, activity
from broker.web.formats import visible
from broker.web.frames import frame
from broker.web.pictures.over_time import OUTCOMES
from broker.web.rendering import for_reader, page_router
from broker.web.time_range import A_DAY_H, Hours

router = page_router(tag="plots")
Columns = Mapping[str, Sequence[Any]]


@router.get("/plots/outcomes")
@allow(READ)
def plot_outcomes(request: Request, api: State, at: At = None, hours: Hours = A_DAY_H) -> Response:
    """Chunks by outcome, and what changed meanwhile."""
    with asking(api, at) as asked:
        found = activity(asked, timedelta(hours=hours))
    return _plot(request, "outcomes", found.since, found.now, outcome_columns(for_reader(request, found)))


@router.get("/plots/queues/{queue:path}")
@allow(READ)
def plot_jobs(
    request: Request,
    api: State,
    queue: Annotated[str, Path(min_length=1, max_length=200)],
    at: At = None,
    hours: Hours = A_DAY_H,
) -> Response:
    """Jobs that run and wait at a queue."""
    with asking(api, at) as asked:
        found = queue_jobs(asked, unified_of(queue), timedelta(hours=hours))
    return _plot(request, "jobs", found.since, found.now, {"steps": job_columns(found)})


def outcome_columns(found: Activity) -> dict[str, Columns]:
    """The steps, each from its middle to both sides, and the marks."""
    half_ms = 500 * found.step_s
    steps: dict[str, list[Any]] = {
        "at": [_ms(one.at) + half_ms for one in found.steps],
        "wide": [1.8 * half_ms] * len(found.steps),
        **{name: [one.outcomes.get(name, 0) for one in found.steps] for name in OUTCOMES},
    }
    marks: Columns = {
        "at": [_ms(one.at) for one in found.changes],
        "lane": [one.kind for one in found.changes],
        "text": [visible(f"{one.about}: {one.detail}") for one in found.changes],
    }
    return {"steps": steps, "marks": marks}


def job_columns(found: QueueJobs) -> Columns:
    """The steps by column; the last one holds until now."""
    steps = [(one.at, one.running, one.queued) for one in found.steps]
    steps += [(found.now, *one[1:]) for one in steps[-1:]]
    return {
        "at": [_ms(at) for at, _, _ in steps],
        "running": [running for _, running, _ in steps],
        "queued": [queued for _, _, queued in steps],
    }


def _plot(request: Request, name: str, since: datetime, until: datetime, sources: Mapping[str, Columns]) -> Response:
    plotted = {"frame": frame(name), "sources": sources, "span": [_ms(since), _ms(until)]}
    return answer(request, plotted)


def _ms(at: datetime) -> float:
    return 1000 * at.timestamp()

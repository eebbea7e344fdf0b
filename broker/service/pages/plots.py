"""Data of plots over time with their frames; a page that shows such a plot also has it as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import Path, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.presenting import answer
from broker.api.state import At, State, query_context
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
    with query_context(api, at) as query:
        recent = activity(query, timedelta(hours=hours))
    return _plot(request, "outcomes", recent.since, recent.now, outcome_columns(for_reader(request, recent)))


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
    with query_context(api, at) as query:
        jobs_of_queue = queue_jobs(query, unified_of(queue), timedelta(hours=hours))
    return _plot(request, "jobs", jobs_of_queue.since, jobs_of_queue.now, {"steps": job_columns(jobs_of_queue)})


def outcome_columns(recent: Activity) -> dict[str, Columns]:
    """Return the steps, each extended from its middle to both sides, and the marks."""
    half_ms = 500 * recent.step_s
    steps: dict[str, list[Any]] = {
        "at": [_ms(step.at) + half_ms for step in recent.steps],
        "wide": [1.8 * half_ms] * len(recent.steps),
        **{name: [step.outcomes.get(name, 0) for step in recent.steps] for name in OUTCOMES},
    }
    mark_columns: Columns = {
        "at": [_ms(change.at) for change in recent.changes],
        "lane": [change.kind for change in recent.changes],
        "text": [visible(f"{change.about}: {change.detail}") for change in recent.changes],
    }
    return {"steps": steps, "marks": mark_columns}


def job_columns(jobs_of_queue: QueueJobs) -> Columns:
    """Return the steps by column; the last one lasts until now."""
    steps = [(step.at, step.running, step.queued) for step in jobs_of_queue.steps]
    steps += [(jobs_of_queue.now, *step[1:]) for step in steps[-1:]]
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

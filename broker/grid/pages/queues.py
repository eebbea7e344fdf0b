"""Queues: the list with the heat map of rules, and one queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Path, Query, Response
from markupsafe import Markup
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.deciding import decided_if
from broker.api.guarded_route import allow
from broker.api.state import At, Name, State, query_context
from broker.domain.rejection_counts import unified_of
from broker.grid.answers.models import QueueAnswer, QueueFilters, QueueLine
from broker.grid.answers.queue import near_miss_sentence, queue_sentences, read_queue_answer
from broker.grid.answers.queue_jobs import QueueJobs, queue_jobs
from broker.grid.answers.queues import queues
from broker.grid.pages.cells import Cell, cells
from broker.history.answers.tasks import known_queue_filters
from broker.outcomes.answers.outcomes import Outcomes, held_nodes, outcomes_answer
from broker.service.answers.overview import RejectionMap, hours_known, rejection_map
from broker.store.query_context import Proceed
from broker.web.formats import in_path
from broker.web.pictures.bars import Bar, bars
from broker.web.pictures.job_states import STATES
from broker.web.pictures.series import Line, lines_over_time
from broker.web.rendering import page_router, show
from broker.web.time_range import SomeHours, plot_address, time_shown

router = page_router(tag="queues")
MOST_CODES, QUEUES_OF_A_PAGE = 20, 50


@router.get("/queues")
@allow(READ)
def list_queues(
    request: Request,
    api: State,
    status: Name | None = None,
    site: Name | None = None,
    idle: bool = False,
    first: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    at: At = None,
) -> Response:
    """All queues: what each got, and a heat map of what rejected them; ``first``: number of the first queue shown."""
    with query_context(api, at) as query:
        filters = known_queue_filters(query, QueueFilters(status=status or None, site=site or None, idle=idle))
        all_queues = queues(query)
        matches = all_queues if filters == QueueFilters() else queues(query, filters)
        rejected = rejection_map(query)
    every = all_queues.queues
    lines = matches.queues[first - 1 : first - 1 + QUEUES_OF_A_PAGE]
    names = {line.queue for line in lines}
    return show(
        request,
        "grid/queues",
        {"queues": matches, "rejections": rejected},
        title="Queues",
        listed=matches.queues,
        lines=[line.model_dump() for line in lines],
        given={"status": status or "", "site": site or "", "idle": idle},
        chips=chips(every, status or "", idle),
        sentence=list_sentence(every),
        largest=max((line.jobs.running for line in every), default=0),
        earlier=_address(request, first - QUEUES_OF_A_PAGE) if first > 1 else None,
        later=_address(request, first + QUEUES_OF_A_PAGE) if first + len(lines) <= len(matches.queues) else None,
        first=first,
        time=time_shown(request, at, matches.now),
        picture=lambda: heat_map(rejected, names),
    )


def chips(lines: Sequence[QueueLine], status: str, idle: bool) -> list[dict[str, object]]:
    """The choices above the list, each with its number of queues."""
    states = Counter(line.status or "unknown" for line in lines)
    got_none = sum(1 for line in lines if not line.placed)
    choices: list[dict[str, object]] = [
        {"word": "all", "count": len(lines), "address": "/queues", "on": not status and not idle},
        {"word": "got no jobs", "count": got_none, "address": "/queues?idle=true", "on": idle},
    ]
    for name, number in sorted(states.items(), key=lambda one: (-one[1], one[0])):
        address = f"/queues?{urlencode({'status': name})}"
        choices.append({"word": name, "count": number, "address": address, "on": status == name})
    return choices


def list_sentence(lines: Sequence[QueueLine]) -> str:
    """A sentence on how many queues there are, and how many got no jobs."""
    online = [line for line in lines if line.status == "online"]
    idle = [line for line in online if not line.placed]
    reasons = Counter(line.main_code for line in idle if line.main_code)
    sites = len({line.site or line.queue for line in lines})
    sentence = f"{len(lines):,} queues at {sites:,} sites, {len(online):,} online. {len(idle):,} of those got no jobs"
    return sentence + (f", mostly for {reasons.most_common(1)[0][0]}." if reasons else ".")


def _address(request: Request, first: int) -> str:
    """The address of the same list from another queue on."""
    return f"?{request.url.include_query_params(first=max(1, first)).query}"


def heat_map(rejections: RejectionMap, names: set[str]) -> Markup:
    """Queues against codes: how many chunks each code kept from each queue."""
    shown = sorted(
        (queue for queue in rejections.queues if queue.queue in names),
        key=lambda queue: (-sum(queue.rejected.values()), queue.queue),
    )
    codes = rejections.codes[:MOST_CODES]
    boxes = {
        (queue.queue, code): Cell(chunks, f"{code}: {chunks:,} chunks", f"/queues/{in_path(queue.queue)}#rejected")
        for queue in shown
        for code, chunks in queue.rejected.items()
        if code in codes
    }
    rows = [(queue.queue, f"/queues/{in_path(queue.queue)}") for queue in shown]
    columns = [(code, f"/reasons/{in_path(code)}") for code in codes]
    return cells(f"Heat map of {len(rows)} queues against {len(columns)} reasons", rows, columns, boxes)


@router.get("/queues/{queue:path}")
@allow(READ)
async def one_queue(
    request: Request,
    api: State,
    queue: Annotated[str, Path(min_length=1, max_length=200)],
    evaluate: bool = False,
    at: At = None,
    hours: SomeHours = None,
) -> Response:
    """Why a queue gets what it gets, and why not more; evaluated for those with a token."""

    def work(proceed: Proceed) -> Response:
        with query_context(api, at) as query:
            evaluated = read_queue_answer(query, unified_of(queue), evaluate=evaluate)
            shown_h = hours or hours_known(query)
            over_time = queue_jobs(query, unified_of(queue), timedelta(hours=shown_h))
            ended = outcomes_answer(query, queue=unified_of(queue))
            held = held_nodes(query, unified_of(queue)).get(unified_of(queue), [])
        answer = evaluated(proceed)
        plotted = {
            "time": time_shown(request, at, answer.now, shown_h),
            "plotted": plot_address(f"/plots/queues/{in_path(answer.queue)}", at, shown_h),
            "held": [f"No jobs go to {one}." for one in held],
        }
        return _queue_page(request, answer, over_time, ended, evaluate, plotted)

    return await decided_if(evaluate, request, api, work)


def _queue_page(
    request: Request,
    answer: QueueAnswer,
    over_time: QueueJobs,
    ended: Outcomes,
    evaluate: bool,
    plotted: Mapping[str, Any],
) -> Response:
    misses = [[near_miss_sentence(miss) for miss in line.near_misses] for line in answer.brokerages]
    return show(
        request,
        "grid/queue",
        answer,
        title=f"Queue {answer.queue}",
        sentences=list(queue_sentences(answer)),
        misses=misses,
        evaluated=evaluate,
        **plotted,
        ended=ended.queues,
        unhealthy=[f"{place.node}: {place.sentence}" if place.node else place.sentence for place in ended.unhealthy],
        picture=lambda: jobs_picture(answer),
        over_time=lambda: jobs_over_time(over_time),
    )


def jobs_over_time(jobs: QueueJobs) -> Markup:
    """Jobs that ran and waited at the queue."""
    points = {
        name: [(step.at.timestamp(), float(getattr(step, name))) for step in jobs.steps]
        for name in ("running", "queued")
    }
    lines = [Line("running", "good", points["running"]), Line("queued", "wait", points["queued"])]
    last_counts = ", ".join(f"{name} {int(steps[-1][1]):,} at last" for name, steps in points.items() if steps)
    return lines_over_time(
        f"Jobs at {jobs.queue} in this time: {last_counts or 'not known'}", jobs.since, jobs.now, lines
    )


def jobs_picture(answer: QueueAnswer) -> Markup:
    """Jobs of the queue by status."""
    stats = answer.jobs.model_dump()
    lines = [Bar(name, float(number), f"{number:,}", class_=STATES[name]) for name, number in stats.items()]
    return bars(f"Jobs at {answer.queue}", lines)

"""The quality page: each cycle compared with the best placement of its jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Query, Response
from markupsafe import Markup
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.state import At, State, query_context
from broker.flow.answers.quality import MOST_CYCLES, CycleQuality, Quality, quality, quality_sentence
from broker.service.answers.alarms import load_limits
from broker.web.pictures.series import Line, lines_over_time
from broker.web.rendering import page_router, show
from broker.web.time_range import time_shown

#: Minimum length of the time axis; a line begins at the first measurement.
SHORTEST = timedelta(hours=1)
router = page_router(tag="decisions")
#: Style sheet classes of the lines in the pictures of costs and bytes.
LINES = ("line policy-0", "line policy-1", "line policy-2", "line policy-3")


@router.get("/quality")
@allow(READ)
def show_quality(
    request: Request, api: State, at: At = None, hours: Annotated[float, Query(gt=0, le=24 * 35)] = 24.0
) -> Response:
    """How good decisions were: regret over time, by share, cause and rule."""
    with query_context(api, at) as query:
        answer = quality(query, load_limits(query.config).drift, hours=hours, cycles=MOST_CYCLES)
    newest: dict[str, CycleQuality] = {}
    for cycle in answer.cycles:
        if cycle.state == "measured":
            newest.setdefault(cycle.brokerage, cycle)
    return show(
        request,
        "flow/quality",
        answer,
        title="Quality of decisions",
        items="cycles",
        time=time_shown(request, at, answer.now),
        sentence=quality_sentence(answer),
        newest=list(newest.values()),
        keys=[(class_.replace("line ", ""), name) for name, class_ in zip(sorted(newest), LINES, strict=False)],
        costs=lambda: over_time("Dearer than the best placement, %", answer, "regret_percent"),
        bytes=lambda: over_time("Input moved in vain, %", answer, "bytes_percent"),
    )


def over_time(title: str, answer: Quality, figure: str) -> Markup:
    """Plot a figure with one line per brokerage; negative values are drawn at 0. Pure."""
    points: dict[str, list[tuple[float, float]]] = {}
    for cycle in reversed(answer.cycles):
        value = getattr(cycle, figure)
        if cycle.placer == "ours" and value is not None:
            points.setdefault(cycle.brokerage, []).append((cycle.decided_at.timestamp(), max(0.0, value)))
    lines = [Line(name, class_, points[name]) for name, class_ in zip(sorted(points), LINES, strict=False)]
    latest = ", ".join(f"{line.name} {line.points[-1][1]:g}" for line in lines)
    first = min((line.points[0][0] for line in lines), default=answer.since.timestamp())
    since = max(answer.since, min(datetime.fromtimestamp(first, UTC), answer.now - SHORTEST))
    return lines_over_time(f"{title}: {latest or 'not known'}", since, answer.now, lines)

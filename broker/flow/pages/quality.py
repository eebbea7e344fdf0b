"""The page of quality: each cycle beside the best placement of its jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Query, Response
from markupsafe import Markup
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.state import At, State, asking
from broker.flow.answers.quality import MOST_CYCLES, CycleQuality, Quality, quality, quality_sentence
from broker.service.answers.alarms import load_limits
from broker.web.pictures.series import Line, lines_over_time
from broker.web.rendering import page_router, show
from broker.web.time_range import time_shown

#: A line begins where something was measured; the axis is this long at least.
SHORTEST = timedelta(hours=1)
router = page_router(tag="decisions")
#: Lines of the picture of costs and of that of bytes; classes as the style sheet has them.
LINES = ("line policy-0", "line policy-1", "line policy-2", "line policy-3")


@router.get("/quality")
@allow(READ)
def show_quality(
    request: Request, api: State, at: At = None, hours: Annotated[float, Query(gt=0, le=24 * 35)] = 24.0
) -> Response:
    """How good decisions were: regret over time, by share, cause and rule."""
    with asking(api, at) as asked:
        found = quality(asked, load_limits(asked.config).drift, hours=hours, cycles=MOST_CYCLES)
    newest: dict[str, CycleQuality] = {}
    for one in found.cycles:
        if one.state == "measured":
            newest.setdefault(one.brokerage, one)
    return show(
        request,
        "quality",
        found,
        title="Quality of decisions",
        items="cycles",
        time=time_shown(request, at, found.now),
        sentence=quality_sentence(found),
        newest=list(newest.values()),
        keys=[(class_.replace("line ", ""), name) for name, class_ in zip(sorted(newest), LINES, strict=False)],
        costs=lambda: over_time("Dearer than the best placement, %", found, "regret_percent"),
        bytes=lambda: over_time("Input moved in vain, %", found, "bytes_percent"),
    )


def over_time(title: str, found: Quality, figure: str) -> Markup:
    """A figure of each brokerage, a line each; what is below 0 is drawn at 0. Pure."""
    points: dict[str, list[tuple[float, float]]] = {}
    for one in reversed(found.cycles):
        value = getattr(one, figure)
        if one.placer == "ours" and value is not None:
            points.setdefault(one.brokerage, []).append((one.decided_at.timestamp(), max(0.0, value)))
    lines = [Line(name, class_, points[name]) for name, class_ in zip(sorted(points), LINES, strict=False)]
    said = ", ".join(f"{line.name} {line.points[-1][1]:g}" for line in lines)
    first = min((line.points[0][0] for line in lines), default=found.since.timestamp())
    since = max(found.since, min(datetime.fromtimestamp(first, UTC), found.now - SHORTEST))
    return lines_over_time(f"{title}: {said or 'not known'}", since, found.now, lines)

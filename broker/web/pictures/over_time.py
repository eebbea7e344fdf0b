"""What happens over time: stacked outcomes with marks of changes, lines of events, sparklines. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from broker.web.pictures.bars import cut, element, label, nice_limit, picture, rectangle

WIDTH, LEFT, HEIGHT, LANE = 960.0, 46.0, 180.0, 16.0
OUTCOMES = ("brokered", "pending", "throttled", "skipped")
LANES = ("tuning", "queue", "source", "canary", "pin")


@dataclass(frozen=True)
class Mark:
    """Something that happened at an instant: of a lane, with what it says."""

    at: datetime
    lane: str
    text: str


def outcomes_over_time(
    since: datetime,
    until: datetime,
    step_s: float,
    steps: Sequence[tuple[datetime, Mapping[str, int]]],
    marks: Sequence[Mark],
) -> Markup:
    """Decisions by outcome, stacked; below them what changed, on the same axis."""
    span_s = (until - since).total_seconds()
    across = WIDTH - LEFT - 10

    def x(at: datetime) -> float:
        return LEFT + across * min(1.0, max(0.0, (at - since).total_seconds() / span_s))

    largest = nice_limit(max((sum(found.values()) for _, found in steps), default=0))
    drawn: list[Markup] = [
        label(LEFT - 6, 12, f"{largest:,.0f}", anchor="end"),
        label(LEFT - 6, HEIGHT, "0", anchor="end"),
        element("line", x1=LEFT, x2=WIDTH - 10, y1=HEIGHT, y2=HEIGHT, class_="axis"),
    ]
    wide = max(1.0, across * step_s / span_s - 1)
    for at, found in steps:
        bottom = HEIGHT
        for outcome in (*OUTCOMES, *sorted(set(found) - set(OUTCOMES))):
            if found.get(outcome):
                tall = (HEIGHT - 12) * found[outcome] / largest
                bottom -= tall
                said = f"{at:%H:%M} {outcome}: {found[outcome]:,}"
                drawn.append(rectangle(x(at), bottom, wide, tall, f"outcome-{outcome}", said))
    drawn += hour_labels(since, until, x, HEIGHT + 14)
    drawn += _lanes(marks, x)
    total = sum(sum(found.values()) for _, found in steps)
    said = f"{total:,} chunks decided in 24 hours by outcome, and {len(marks)} changes of the tuning and the grid"
    return picture(WIDTH, HEIGHT + 24 + LANE * len(LANES), said, drawn)


def _lanes(marks: Sequence[Mark], x: Callable[[datetime], float]) -> list[Markup]:
    drawn: list[Markup] = []
    for at, lane in enumerate(LANES):
        y = HEIGHT + 28 + LANE * at
        drawn.append(label(LEFT - 6, y + 4, lane, anchor="end"))
        drawn.append(element("line", x1=LEFT, x2=WIDTH - 10, y1=y, y2=y, class_="lane"))
        for mark in marks:
            if mark.lane == lane:
                said = [element("title", f"{mark.at:%H:%M} {mark.text}")]
                drawn.append(element("circle", said, cx=x(mark.at), cy=y, r=4, class_=f"mark-{lane}"))
    return drawn


def hour_labels(since: datetime, until: datetime, x: Callable[[datetime], float], y: float) -> list[Markup]:
    """The hours below an axis of time."""
    hours = max(1, round((until - since).total_seconds() / 3600 / 6))
    at = since.replace(minute=0, second=0, microsecond=0) + timedelta(hours=hours)
    drawn = []
    while at < until:
        drawn.append(label(x(at), y, f"{at:%H:%M}", anchor="middle"))
        at += timedelta(hours=hours)
    return drawn


def timeline(events: Sequence[Mark], width: float = WIDTH) -> Markup:
    """Events in lanes by their kind, from the first to the last."""
    if not events:
        return picture(width, 20, "no events", [label(0, 14, "no events")])
    lanes = list(dict.fromkeys(event.lane for event in events))
    first, last = min(event.at for event in events), max(event.at for event in events)
    span_s = max(1.0, (last - first).total_seconds())
    left = 110.0
    drawn: list[Markup] = []
    for at, lane in enumerate(lanes):
        y = 14 + 22.0 * at
        drawn.append(label(left - 10, y + 4, cut(lane, 16), anchor="end"))
        drawn.append(element("line", x1=left, x2=width - 10, y1=y, y2=y, class_="lane"))
        for event in events:
            if event.lane == lane:
                x = left + (width - left - 20) * (event.at - first).total_seconds() / span_s
                said = [element("title", f"{event.at:%Y-%m-%d %H:%M} {event.text}")]
                drawn.append(element("circle", said, cx=x, cy=y, r=5, class_=f"mark-{lane}"))
    bottom = 14 + 22.0 * len(lanes)
    drawn.append(label(left, bottom + 6, f"{first:%Y-%m-%d %H:%M}"))
    drawn.append(label(width - 10, bottom + 6, f"{last:%Y-%m-%d %H:%M}", anchor="end"))
    return picture(
        width, bottom + 12, f"{len(events)} events from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}", drawn
    )


def sparkline(title: str, values: Sequence[float]) -> Markup:
    """A line of figures, as small as a word."""
    largest = max([1.0, *values])
    step = 118.0 / max(1, len(values) - 1)
    points = " ".join(f"{1 + at * step:.1f},{23 - 22 * value / largest:.1f}" for at, value in enumerate(values))
    return picture(120, 24, title, [element("polyline", points=points, class_="spark")])

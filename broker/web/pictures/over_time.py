"""Events over time: stacked outcomes with marks of changes, lines of events, sparklines. Pure.

A chart takes the available width: its shapes are drawn into a box that is stretched, while names at its left and
figures below it are text that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from broker.web.formats import moment
from broker.web.pictures.bars import Attribute, element, nice_limit, part, titled_box

WIDTH, HEIGHT, TALL = 1000.0, 200.0, "12rem"
UTC_CLOCK = "UTC"
OUTCOMES = ("brokered", "pending", "throttled", "skipped")
LANES = ("tuning", "queue", "source", "canary", "pin")
#: A label below an axis needs some of its width: no hour label stands closer to an end than this.
BESIDE_END = 0.07


@dataclass(frozen=True)
class AxisLabel:
    """A label below an axis: position as a fraction of the width, text, and for an instant the instant itself."""

    at: float
    text: str
    instant: datetime | None = None


@dataclass(frozen=True)
class Mark:
    """An event at an instant: its lane and its text."""

    at: datetime
    lane: str
    text: str


def chart(
    title: str,
    largest: float,
    shapes: Sequence[Markup],
    below: Sequence[AxisLabel],
    lanes: Sequence[tuple[str, Sequence[Markup]]] = (),
) -> Markup:
    """Return a chart with the end of its axis at the left, labels at fractions of the width below it, then lanes.

    Args:
        title: text alternative.
        largest: the end of the upward axis.
        shapes: shapes in a box of ``WIDTH`` by ``HEIGHT``, whose height is ``largest``.
        below: labels below the axis; if these are instants, their clock is shown next to them.
        lanes: name and shapes of each lane, in fractions of the width.
    """
    top = f"{largest:,.0f}" if largest >= 1 else f"{largest:g}"
    box: dict[str, Attribute] = {"viewBox": f"0 0 {WIDTH:.0f} {HEIGHT:.0f}", "preserveAspectRatio": "none"}
    grid = [element("line", x1=0, x2=WIDTH, y1=y, y2=y, class_="axis") for y in (0.0, HEIGHT / 2, HEIGHT)]
    content = [element("title", title), *grid, *shapes]
    rows = [
        element("span", [element("span", top), element("span", "0")], class_="y"),
        element("svg", content, class_="whole stretched", height=TALL, role="img", aria_label=title, **box),
        element("span", UTC_CLOCK if any(tick.instant for tick in below) else "", class_="y clock"),
        _names_below(below),
    ]
    for name, lane_shapes in lanes:
        line = element("line", x1="0%", x2="100%", y1="50%", y2="50%", class_="lane")
        rows += [
            element("span", name, class_="y"),
            element("svg", [line, *lane_shapes], class_="whole", height="1.1rem"),
        ]
    return element("div", rows, class_="picture chart")


def _names_below(below: Sequence[AxisLabel]) -> Markup:
    names = [
        element(
            "text",
            tick.text,
            x=part(tick.at, 1.0),
            y="75%",
            text_anchor="start" if tick.at < BESIDE_END else "end" if tick.at > 1 - BESIDE_END else "middle",
            data_time=None if tick.instant is None else tick.instant.isoformat(),
        )
        for tick in below
    ]
    return element("svg", names, class_="whole", height="1.2rem", aria_hidden="true")


def dot(at: float, class_: str, title: str, instant: datetime) -> Markup:
    """Return a dot in a lane for an instant, at a fraction of the width."""
    place: dict[str, Attribute] = {"cx": part(at, 1.0), "cy": "50%", "r": "0.3rem"}
    return element("circle", [element("title", title)], class_=class_, data_at=instant.isoformat(), **place)


def outcomes_over_time(
    since: datetime,
    until: datetime,
    step_s: float,
    steps: Sequence[tuple[datetime, Mapping[str, int]]],
    events: Sequence[Mark],
) -> Markup:
    """Draw decisions stacked by outcome, with lanes of changes below on the same axis."""
    place = places_between(since, until)
    largest = nice_limit(max((sum(counts.values()) for _, counts in steps), default=0))
    wide = max(1.0, WIDTH * step_s / (until - since).total_seconds() - 2)
    bars: list[Markup] = []
    for at, counts in steps:
        bottom, x, clock, instant = HEIGHT, WIDTH * place(at), f"{at:%H:%M} UTC", at.isoformat()
        for outcome in (*OUTCOMES, *sorted(set(counts) - set(OUTCOMES))):
            if counts.get(outcome):
                tall = HEIGHT * counts[outcome] / largest
                bottom -= tall
                box = x, bottom, min(wide, WIDTH - x), tall
                bars.append(titled_box(box, f"{clock} {outcome}: {counts[outcome]:,}", f"outcome-{outcome}", instant))
    total = sum(sum(counts.values()) for _, counts in steps)
    title = f"{total:,} chunks decided by outcome, and {len(events)} changes of the tuning and the grid"
    return chart(title, largest, bars, hours_between(since, until), _lanes(LANES, events, place, "%H:%M UTC"))


def places_between(since: datetime, until: datetime) -> Callable[[datetime], float]:
    """Return the fraction of a span of time that has passed at an instant, from 0 to 1."""
    span_s = max(1.0, (until - since).total_seconds())
    return lambda at: min(1.0, max(0.0, (at - since).total_seconds() / span_s))


def _lanes(
    lanes: Sequence[str], events: Sequence[Mark], place: Callable[[datetime], float], time_format: str
) -> list[tuple[str, Sequence[Markup]]]:
    return [
        (
            lane,
            [
                dot(place(event.at), f"mark-{lane}", f"{event.at:{time_format}} {event.text}", event.at)
                for event in events
                if event.lane == lane
            ],
        )
        for lane in lanes
    ]


def hours_between(since: datetime, until: datetime) -> list[AxisLabel]:
    """Return at most six hours to label an axis of time, none so close to an end that labels overlap."""
    place = places_between(since, until)
    hours = max(1, round((until - since).total_seconds() / 3600 / 6))
    at = since.replace(minute=0, second=0, microsecond=0) + timedelta(hours=hours)
    labels = []
    while at < until:
        if BESIDE_END <= place(at) <= 1 - BESIDE_END:
            labels.append(AxisLabel(place(at), f"{at:%H:%M}", at))
        at += timedelta(hours=hours)
    return labels


def timeline(events: Sequence[Mark]) -> Markup:
    """Draw events in lanes by kind, from the first event to the last."""
    if not events:
        return element("p", "No events.", class_="empty")
    lanes = list(dict.fromkeys(event.lane for event in events))
    first, last = min(event.at for event in events), max(event.at for event in events)
    summary = f"{len(events)} events from {first:%Y-%m-%d %H:%M} UTC to {last:%Y-%m-%d %H:%M} UTC"
    rows: list[Markup] = []
    for lane, dots in _lanes(lanes, events, places_between(first, last), "%Y-%m-%d %H:%M UTC"):
        line = element("line", x1="0%", x2="100%", y1="50%", y2="50%", class_="lane")
        rows += [element("span", lane, class_="y"), element("svg", [line, *dots], class_="whole", height="1.4rem")]
    ends = [moment(first), *([moment(last)] if last > first else [])]
    rows += [element("span"), element("span", [element("span", [end]) for end in ends], class_="ends")]
    return element("div", rows, class_="picture chart", role="group", aria_label=summary)


SPARK_WIDTH, SPARK_HEIGHT = 96.0, 26.0


def sparkline(title: str, values: Sequence[float], class_: str = "link") -> Markup:
    """Draw a line of figures as small as a word."""
    largest = max([1e-9, *values])
    step = (SPARK_WIDTH - 6) / max(1, len(values) - 1)
    tall = SPARK_HEIGHT - 4
    points = [(at * step, 2 + tall * (1 - value / largest)) for at, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    content = [element("title", title)]
    if len(points) > 1:
        area = f"0,{SPARK_HEIGHT:.0f} {line} {points[-1][0]:.1f},{SPARK_HEIGHT:.0f}"
        content.append(element("polygon", points=area, class_=f"under {class_}"))
        content.append(element("polyline", points=line, class_=f"line {class_}"))
        content.append(element("circle", cx=points[-1][0], cy=points[-1][1], r=2.2, class_=class_))
    size: dict[str, Attribute] = {
        "viewBox": f"0 0 {SPARK_WIDTH:.0f} {SPARK_HEIGHT:.0f}",
        "width": f"{SPARK_WIDTH / 16:.2f}rem",
        "height": f"{SPARK_HEIGHT / 16:.2f}rem",
    }
    return element("svg", content, class_="spark", role="img", aria_label=title, **size)

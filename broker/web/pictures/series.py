"""Lines over time, and curves over values of a key: SVG for readers without scripts, and the data of plots. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from broker.web.pictures.bars import element, label, nice_limit, picture
from broker.web.pictures.over_time import hour_labels

WIDTH, LEFT, RIGHT, HEIGHT = 960.0, 60.0, 10.0, 150.0


@dataclass(frozen=True)
class Line:
    """One line: its name, its class, and its points as (x, y)."""

    name: str
    class_: str
    points: Sequence[tuple[float, float]]


def lines_over_time(title: str, since: datetime, until: datetime, lines: Sequence[Line]) -> Markup:
    """Lines whose x are seconds since 1970."""
    first, span_s = since.timestamp(), max(1.0, (until - since).total_seconds())
    across = WIDTH - LEFT - RIGHT

    def x(at: datetime) -> float:
        return LEFT + across * (at.timestamp() - first) / span_s

    drawn = _axes(largest := _largest(lines))
    drawn += hour_labels(since, until, x, HEIGHT + 14)
    drawn += _lines(lines, lambda at: LEFT + across * (at - first) / span_s, largest)
    return picture(WIDTH, HEIGHT + 20, title, drawn)


def curve(title: str, unit: str, lines: Sequence[Line], marked: float | None = None) -> Markup:
    """Lines over the values of a key, with a mark at the value in force."""
    values = [x for line in lines for x, _ in line.points] + ([] if marked is None else [marked])
    low, high = min(values, default=0.0), max(values, default=1.0)
    span = (high - low) or 1.0
    across = WIDTH - LEFT - RIGHT - 10

    def x(value: float) -> float:
        return LEFT + across * (value - low) / span

    drawn = _axes(largest := _largest(lines))
    drawn += [label(x(low), HEIGHT + 14, f"{low:g}", anchor="middle")]
    drawn += [label(x(high), HEIGHT + 14, f"{high:g} {unit}".strip(), anchor="end")]
    if marked is not None:
        said = [element("title", f"in force: {marked:g} {unit}".strip())]
        drawn.append(element("line", said, x1=x(marked), x2=x(marked), y1=8, y2=HEIGHT, class_="mark"))
    drawn += _lines(lines, x, largest)
    return picture(WIDTH, HEIGHT + 20, title, drawn)


def _largest(lines: Sequence[Line]) -> float:
    return nice_limit(max((y for line in lines for _, y in line.points), default=0.0))


def _axes(largest: float) -> list[Markup]:
    return [
        label(LEFT - 6, 14, f"{largest:,.0f}" if largest >= 1 else f"{largest:g}", anchor="end"),
        label(LEFT - 6, HEIGHT, "0", anchor="end"),
        element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=HEIGHT, y2=HEIGHT, class_="axis"),
    ]


def _lines(lines: Sequence[Line], x: Callable[[float], float], largest: float) -> list[Markup]:
    drawn = []
    for line in lines:
        places = [(x(at), HEIGHT - (HEIGHT - 10) * value / largest) for at, value in line.points]
        points = " ".join(f"{across:.1f},{down:.1f}" for across, down in places)
        said = [element("title", line.name)]
        drawn.append(element("polyline", said, points=points, class_=f"line {line.class_}"))
        if len(places) <= 30:
            drawn += [element("circle", said, cx=at, cy=down, r=3, class_=line.class_) for at, down in places]
    return drawn

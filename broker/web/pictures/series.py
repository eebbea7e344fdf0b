"""Lines over time, and curves over values of a key: SVG for readers without scripts, and the data of plots. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from broker.web.pictures.bars import element, nice_limit
from broker.web.pictures.over_time import HEIGHT, WIDTH, AxisLabel, chart, hours_between

MOST_DOTS = 30


@dataclass(frozen=True)
class Line:
    """One line: its name, its class, and its points as (x, y)."""

    name: str
    class_: str
    points: Sequence[tuple[float, float]]


def lines_over_time(title: str, since: datetime, until: datetime, lines: Sequence[Line]) -> Markup:
    """Draw lines over time; x is in seconds since 1970."""
    first, span_s = since.timestamp(), max(1.0, (until - since).total_seconds())
    largest = _largest(lines)
    shapes = _lines(lines, lambda at: WIDTH * (at - first) / span_s, largest)
    return chart(title, largest, shapes, hours_between(since, until))


def curve(title: str, unit: str, lines: Sequence[Line], marked: float | None = None) -> Markup:
    """Draw lines over the values of a key, with a mark at the value in force."""
    values = [x for line in lines for x, _ in line.points] + ([] if marked is None else [marked])
    low, high = min(values, default=0.0), max(values, default=1.0)
    span = (high - low) or 1.0

    def x(value: float) -> float:
        return WIDTH * (value - low) / span

    largest = _largest(lines)
    shapes = []
    if marked is not None:
        title_element = [element("title", f"in force: {marked:g} {unit}".strip())]
        shapes.append(element("line", title_element, x1=x(marked), x2=x(marked), y1=0.0, y2=HEIGHT, class_="mark"))
    shapes += _lines(lines, x, largest)
    return chart(title, largest, shapes, [AxisLabel(0.0, f"{low:g}"), AxisLabel(1.0, f"{high:g} {unit}".strip())])


def _largest(lines: Sequence[Line]) -> float:
    return nice_limit(max((y for line in lines for _, y in line.points), default=0.0))


def _lines(lines: Sequence[Line], x: Callable[[float], float], largest: float) -> list[Markup]:
    shapes = []
    for line in lines:
        places = [(x(at), HEIGHT * (1 - value / largest)) for at, value in line.points]
        points = " ".join(f"{across:.1f},{down:.1f}" for across, down in places)
        title_element = [element("title", line.name)]
        shapes.append(element("polyline", title_element, points=points, class_=f"line {line.class_}"))
        if len(places) <= MOST_DOTS:
            # a circle would become as wide as the box: the round end of a zero-length line does not
            dots = "".join(f"M{across:.1f},{down:.1f}h0" for across, down in places)
            shapes.append(element("path", title_element, d=dots, class_=f"dots {line.class_}"))
    return shapes

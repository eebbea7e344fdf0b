"""Before and after: a line for each queue from what it had to what it would have. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from broker.web.formats import in_path
from broker.web.pictures.scale import cut, element, label, link, nice_limit, picture

WIDTH, HEIGHT, SIDE, TOP, NAME_PX = 720.0, 300.0, 250.0, 26.0, 15.0


@dataclass(frozen=True)
class Slope:
    """A queue with its jobs before and after."""

    name: str
    before: float
    after: float


def slopes(title: str, lines: Sequence[Slope]) -> Markup:
    """Lines from left to right, those that gain in one colour, those that lose in another."""
    largest = nice_limit(max((max(line.before, line.after) for line in lines), default=0.0))

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - 10) * (1 - value / largest)

    drawn = [label(SIDE, 12, "before", "heading", "end"), label(WIDTH - SIDE, 12, "after", "heading")]
    for line in lines:
        said = [element("title", _said(line))]
        class_ = "good" if line.after > line.before else "lost" if line.after < line.before else "same"
        ends = {"x1": SIDE, "x2": WIDTH - SIDE, "y1": y(line.before), "y2": y(line.after)}
        drawn.append(element("line", said, class_=f"line {class_}", **ends))
    drawn += _names([(y(line.before), line, line.before) for line in lines], SIDE - 8, "end")
    drawn += _names([(y(line.after), line, line.after) for line in lines], WIDTH - SIDE + 8, "start")
    tall = max(HEIGHT, TOP + NAME_PX * (len(lines) + 1))
    return picture(WIDTH, tall, f"{title}: " + "; ".join(_said(line) for line in lines), drawn)


def _names(places: Sequence[tuple[float, Slope, float]], x: float, anchor: str) -> list[Markup]:
    """Names beside the ends of their lines, moved down where they would lie upon one another."""
    drawn, free = [], TOP
    for y, line, value in sorted(places, key=lambda place: (place[0], place[1].name)):
        free = max(free, y + 4)
        text = label(x, free, f"{cut(line.name, 24)} {value:,.0f}", anchor=anchor)
        drawn.append(link(f"/queues/{in_path(line.name.split('/')[0])}", [text]))
        free += NAME_PX
    return drawn


def _said(line: Slope) -> str:
    return f"{line.name} {line.before:,.0f} to {line.after:,.0f} jobs"

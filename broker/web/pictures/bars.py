"""Bars: weights of candidates, requested against best available, shares against targets, histograms. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from broker.web.pictures.scale import cut, element, label, link, nice_limit, picture, rectangle

WIDTH, ROW, LEFT, RIGHT = 720.0, 22.0, 190.0, 120.0


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        name: what it is of.
        value: its length.
        text: behind it.
        address: where its name leads; None: nowhere.
        mark: a value at which a mark stands, such as a target.
        class_: its colour.
    """

    name: str
    value: float
    text: str
    address: str | None = None
    mark: float | None = None
    class_: str = "bar-good"


def bars(title: str, lines: Sequence[Bar]) -> Markup:
    """Horizontal bars of one scale."""
    largest = nice_limit(max((max(line.value, line.mark or 0.0) for line in lines), default=0.0))
    across = WIDTH - LEFT - RIGHT
    drawn: list[Markup] = []
    for at, line in enumerate(lines):
        top = at * ROW
        name = label(LEFT - 8, top + 15, cut(line.name, 26), anchor="end")
        drawn.append(name if line.address is None else link(line.address, [name]))
        width = across * min(line.value, largest) / largest
        drawn.append(rectangle(LEFT, top + 3, max(1.0, width), ROW - 6, line.class_, f"{line.name}: {line.text}"))
        end = width
        if line.mark is not None:
            x = LEFT + across * min(line.mark, largest) / largest
            drawn.append(element("line", x1=x, x2=x, y1=top + 1, y2=top + ROW - 1, class_="mark"))
            end = max(end, x - LEFT)
        drawn.append(label(LEFT + end + 6, top + 15, line.text))
    said = f"{title}: " + ", ".join(f"{line.name} {line.text}" for line in lines)
    return picture(WIDTH, max(1, len(lines)) * ROW + 2, said, drawn)


def histogram(title: str, values: Sequence[float], unit: str) -> Markup:
    """How often values are how large, in ten steps."""
    limit = nice_limit(max(values, default=0.0))
    counts = [0] * 10
    for value in values:
        counts[min(9, int(10 * value / limit))] += 1
    most, height, wide = max(1, *counts), 90.0, 30.0
    drawn: list[Markup] = []
    for at, count in enumerate(counts):
        tall = height * count / most
        said = f"{limit * at / 10:g} to {limit * (at + 1) / 10:g} {unit}: {count}"
        drawn.append(rectangle(at * wide + 1, height - tall, wide - 2, tall, "bar-good", said))
    drawn.append(label(0, height + 14, "0"))
    drawn.append(label(10 * wide, height + 14, f"{limit:g} {unit}", anchor="end"))
    return picture(
        10 * wide, height + 20, f"{title}: {len(values)} values up to {max(values, default=0.0):.3g} {unit}", drawn
    )

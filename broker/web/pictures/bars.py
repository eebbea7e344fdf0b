"""Bars: weights of candidates, requested against best available, shares against targets, histograms. Pure.

Parts of SVG pictures: texts and shapes as escaped markup, scales, and steps of axes. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup, escape

from broker.web.formats import visible

Attribute = str | float | int | None


def element(name: str, inner: Iterable[Markup] | str = (), **attributes: Attribute) -> Markup:
    """One element; ``class_`` is ``class``, ``_`` in names is ``-``; what is None is left away."""
    written = "".join([f' {_named(key)}="{_escaped(value)}"' for key, value in attributes.items() if value is not None])
    body = escape(visible(inner)) if isinstance(inner, str) else Markup("").join(inner)
    # what was put in is escaped, or was markup already
    return Markup(f"<{name}{written}>{body}</{name}>")  # noqa: S704


@cache
def _named(key: str) -> str:
    return key.strip("_").replace("_", "-")


def _escaped(value: Attribute) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return escape(visible(value)) if isinstance(value, str) else str(value)


def picture(width: float, height: float, title: str, inner: Iterable[Markup]) -> Markup:
    """A picture that fits the width it is given; screen readers read its title, and go on to the links in it."""
    drawn = list(inner)
    return element(
        "svg",
        [element("title", title), *drawn],
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="group" if any("<a " in one for one in drawn) else "img",
        aria_label=title,
        class_="picture",
        preserveAspectRatio="xMinYMin meet",
    )


def rectangle(x: float, y: float, width: float, height: float, class_: str, title: str = "") -> Markup:
    """A filled rectangle, with what it says under the mouse."""
    inner = [element("title", title)] if title else []
    return element("rect", inner, x=x, y=y, width=max(0.0, width), height=max(0.0, height), class_=class_)


def label(x: float, y: float, text: str, class_: str = "label", anchor: str = "start") -> Markup:
    """A text of one line."""
    return element("text", text, x=x, y=y, class_=class_, text_anchor=anchor)


def link(address: str, inner: Iterable[Markup]) -> Markup:
    """What leads to another page."""
    return element("a", inner, href=address)


def cut(text: str, most: int) -> str:
    """A text of at most ``most`` characters; what is cut off is marked."""
    return text if len(text) <= most else text[: most - 1] + "…"


def nice_limit(largest: float) -> float:
    """The end of an axis: the next 1, 2 or 5 with zeros."""
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= largest)


def heat(value: float, largest: float) -> str:
    """The class of one of five shades; ``heat-0`` for nothing."""
    if value <= 0 or largest <= 0:
        return "heat-0"
    return f"heat-{min(5, 1 + int(4.999 * math.log1p(value) / math.log1p(largest)))}"


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

"""Parts of SVG pictures: texts and shapes as escaped markup, scales, and steps of axes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
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

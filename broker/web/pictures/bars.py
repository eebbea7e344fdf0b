"""Pictures on pages: bars of all kinds, and the parts of any picture. Pure.

Bars show weights of candidates, requested against best available, shares against targets, histograms. Parts are shapes
as escaped markup, scales, and steps of axes. A picture takes the available width: shapes are placed in fractions of it,
and texts next to them are page text, as large on a phone as elsewhere. A picture with fixed positions, such as a map,
has its own size in ``rem`` and scrolls in its box.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from markupsafe import Markup, escape

from broker.web.formats import breakable, visible

Attribute = str | float | int | None


def element(name: str, inner: Iterable[Markup] | str = (), **attributes: Attribute) -> Markup:
    """Return an element; ``class_`` stands for ``class``, ``_`` for ``-``; attributes of None are left out."""
    attribute_text = "".join(
        [f' {_named(key)}="{_escaped(value)}"' for key, value in attributes.items() if value is not None]
    )
    if isinstance(inner, str):
        body: str = escape(visible(inner))
    else:
        body = "".join([child if type(child) is Markup else escape(child) for child in inner])
    # the inserted values were escaped, or already are markup
    return Markup(f"<{name}{attribute_text}>{body}</{name}>")  # noqa: S704


def titled_box(box: tuple[float, float, float, float], title: str, class_: str, instant: str) -> Markup:
    """Return a rectangle (x, y, width, height) with a title, as :func:`element` does; a chart has hundreds of them."""
    x, y, width, height = map(_escaped, box)
    about = f'class="{_written(class_)}" data-at="{_written(instant)}"'
    escaped_title = escape(visible(title))
    # the inserted values are escaped
    return Markup(  # noqa: S704
        f'<rect {about} x="{x}" y="{y}" width="{width}" height="{height}"><title>{escaped_title}</title></rect>'
    )


@cache
def _named(key: str) -> str:
    return key.strip("_").replace("_", "-")


def _escaped(value: Attribute) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return _written(value) if isinstance(value, str) else str(value)


@lru_cache(maxsize=2048)
def _written(value: str) -> str:
    """Escape the value of an attribute, cached: most shapes of a picture share theirs."""
    return str(escape(visible(value)))


def part(value: float, largest: float) -> str:
    """Return a value as a percentage of the width, limited to 0 % to 100 %."""
    return f"{100 * min(1.0, max(0.0, value / largest)):.2f}%" if largest > 0 else "0%"


PIXELS_OF_REM = 16.0


def picture(width: float, height: float, title: str, inner: Iterable[Markup]) -> Markup:
    """Return a picture of fixed size; screen readers read its title, and continue to its links."""
    children = list(inner)
    return element(
        "svg",
        [element("title", title), *children],
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width / PIXELS_OF_REM:.2f}rem",
        height=f"{height / PIXELS_OF_REM:.2f}rem",
        role="group" if any("<a " in child for child in children) else "img",
        aria_label=title,
        class_="picture",
    )


def rectangle(x: float, y: float, width: float, height: float, class_: str, title: str = "") -> Markup:
    """Return a filled rectangle with a tooltip."""
    inner = [element("title", title)] if title else []
    return element("rect", inner, x=x, y=y, width=max(0.0, width), height=max(0.0, height), class_=class_)


def label(x: float, y: float, text: str, class_: str = "label", anchor: str = "start") -> Markup:
    """Return a line of text."""
    return element("text", text, x=x, y=y, class_=class_, text_anchor=anchor)


def link(address: str, inner: Iterable[Markup]) -> Markup:
    """Return a link around shapes or text."""
    return element("a", inner, href=address)


def cut(text: str, most: int) -> str:
    """Shorten a text to ``most`` characters, the last of which is then an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def nice_limit(largest: float) -> float:
    """Return the end of an axis: the smallest 1, 2 or 5 times a power of ten that is not below the value."""
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= largest)


def heat(value: float, largest: float) -> str:
    """Return the CSS class of one of five shades; ``heat-0`` for zero."""
    if value <= 0 or largest <= 0:
        return "heat-0"
    return f"heat-{min(5, 1 + int(4.999 * math.log1p(value) / math.log1p(largest)))}"


def named(name: str, address: str | None) -> Markup:
    """Return the label of a row, linked if it has a page."""
    words = [breakable(name)]
    return element("span", words, class_="l") if address is None else element("a", words, href=address, class_="l")


def row_of_bars(name: str, address: str | None, shapes: Sequence[Markup], text: str, beside: str = "") -> Markup:
    """Return one row: its name, shapes in fractions of the width, and their figure, with more if there is room."""
    svg = element("svg", shapes, class_="b", aria_hidden="true", height="1rem")
    more = [element("span", beside, class_="broad")] if beside else []
    return Markup("").join([named(name, address), svg, element("span", [escape(visible(text)), *more], class_="v")])


def rows_of_bars(title: str, rows: Iterable[Markup]) -> Markup:
    """Return rows one below the other, with names, shapes and figures in columns."""
    return element("div", rows, class_="picture bars", role="group", aria_label=title)


def bar_of(start: float, length: float, largest: float, class_: str) -> Markup:
    """Return a bar that begins at ``start`` and is never too short to be seen."""
    # about two pixels on a phone
    width = part(max(length, largest / 150), largest) if length > 0 else "0%"
    return element("rect", x=part(start, largest), width=width, y="10%", height="80%", class_=class_)


def mark_of(value: float, largest: float) -> Markup:
    """Return a mark at a value, such as a target or a limit."""
    x = part(value, largest)
    return element("line", x1=x, x2=x, y1="0%", y2="100%", class_="mark")


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        name: subject of the bar.
        value: its length.
        text: text behind it.
        address: link of its name; None without one.
        mark: value to mark, such as a target.
        class_: its colour.
        beside: additional text, for which a phone has no room.
    """

    name: str
    value: float
    text: str
    address: str | None = None
    mark: float | None = None
    class_: str = "bar-good"
    beside: str = ""


def bars(title: str, lines: Sequence[Bar]) -> Markup:
    """Draw horizontal bars on one scale."""
    largest = nice_limit(max((max(line.value, line.mark or 0.0) for line in lines), default=0.0))
    rows = []
    for line in lines:
        shapes = [bar_of(0.0, line.value, largest, line.class_)]
        if line.mark is not None:
            shapes.append(mark_of(line.mark, largest))
        rows.append(row_of_bars(line.name, line.address, shapes, line.text, line.beside))
    return rows_of_bars(title, rows)


def meter(value: float, largest: float, class_: str) -> Markup:
    """Draw a bar for a table cell; its figure stands in another cell."""
    return element("svg", [bar_of(0.0, value, largest, class_)], class_="meter", aria_hidden="true", height="0.5rem")


def histogram(title: str, values: Sequence[float], unit: str) -> Markup:
    """Draw a histogram of values in ten bins."""
    limit = nice_limit(max(values, default=0.0))
    counts = [0] * 10
    for value in values:
        counts[min(9, int(10 * value / limit))] += 1
    most = max(1, *counts)
    columns: list[Markup] = []
    for at, count in enumerate(counts):
        description = f"{limit * at / 10:g} to {limit * (at + 1) / 10:g} {unit}: {count}"
        tall = 100 * count / most
        place = {"x": f"{10 * at + 0.4:.1f}%", "y": f"{100 - tall:.1f}%", "width": "9.2%", "height": f"{tall:.1f}%"}
        columns.append(element("rect", [element("title", description)], class_="bar-good", **place))
    description = f"{title}: {len(values)} values up to {max(values, default=0.0):.3g} {unit}"
    shapes = element(
        "svg",
        [element("title", description), *columns],
        class_="whole",
        height="4rem",
        role="img",
        aria_label=description,
    )
    ends = [element("span", "0"), element("span", f"most often {most}"), element("span", f"{limit:g} {unit}")]
    return element("div", [shapes, element("div", ends, class_="ends")], class_="picture histogram")

"""Curves of a simulation, with a line for each policy and the range over seeds behind it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from broker.simulation.answers.simulations import Curve, PolicyCurve, SimulationAnswer, thinned
from broker.web.pictures.bars import element, nice_limit
from broker.web.pictures.over_time import HEIGHT, WIDTH, AxisLabel, chart

MOST_POINTS = 5000
"""Maximum points of all lines of a page, which stays below 150 kB."""
MOST_LINES = 6
"""Maximum policies in one picture: further ones have no style of their own, and are only in the table."""
LINE_STYLES = ("solid", "long dashes", "dots", "dash and dot", "short dashes", "fine dots")
"""Styles of the lines in order, as in the style sheet: not everybody can distinguish them by colour alone."""
MOST_CURVES = 12
ROWS = 7


@dataclass(frozen=True)
class CurvePicture:
    """One curve of a page: its name, the picture, and its figures at some of the hours.

    Attributes:
        name: name of the curve.
        picture: picture with a line for each policy.
        policies: headings of the columns.
        rows: an hour, and the mean of each policy.
    """

    name: str
    picture: Markup
    policies: tuple[str, ...]
    rows: tuple[tuple[float, tuple[float, ...]], ...]

    @property
    def heads(self) -> list[str]:
        """Headings of the table of figures."""
        return ["Hour|n", *(f"{policy}|n" for policy in self.policies)]


def drawn_curves(simulation: SimulationAnswer) -> list[CurvePicture]:
    """The first ``MOST_CURVES`` curves of a simulation."""
    curves = simulation.curves[:MOST_CURVES]
    lines = sum(min(len(curve.lines), MOST_LINES) for curve in curves)
    most = max(8, min(96, MOST_POINTS // (3 * max(1, lines))))
    return [_drawn(curve, most) for curve in curves]


def _drawn(curve: Curve, most: int) -> CurvePicture:
    places = thinned(len(curve.hours), ROWS)
    return CurvePicture(
        curve.name,
        policies_over_hours(curve, most),
        tuple(line.policy for line in curve.lines),
        tuple((curve.hours[place], tuple(line.mean[place] for line in curve.lines)) for place in places),
    )


def policies_over_hours(curve: Curve, most: int) -> Markup:
    """One curve: the mean over seeds of each policy as a line, lowest to highest as a band.

    Args:
        curve: curve with the same hours for all policies.
        most: maximum points of a line.
    """
    places = thinned(len(curve.hours), most)
    lines = curve.lines[:MOST_LINES]
    first, last = curve.hours[0], curve.hours[-1]
    largest = nice_limit(max((max(line.high, default=0.0) for line in lines), default=0.0))
    span = (last - first) or 1.0

    def point(place: int, value: float) -> str:
        return f"{WIDTH * (curve.hours[place] - first) / span:.0f},{HEIGHT * (1 - value / largest):.1f}"

    def points(values: Sequence[float], chosen: Sequence[int]) -> str:
        return " ".join(point(place, values[place]) for place in chosen)

    inner: list[Markup] = []
    back = list(reversed(places))
    for number, line in enumerate(lines):
        if line.low != line.high:
            outline = f"{points(line.high, places)} {points(line.low, back)}"
            inner.append(element("polygon", points=outline, class_=f"range policy-{number}"))
    for number, line in enumerate(lines):
        title_of = [element("title", line.policy)]
        inner.append(element("polyline", title_of, points=points(line.mean, places), class_=f"line policy-{number}"))
    title = f"{curve.name} from hour {first:g} to {last:g}: {_last_values(lines)}"
    return chart(title, largest, inner, [AxisLabel(0.0, f"{first:g} h"), AxisLabel(1.0, f"{last:g} h")])


def _last_values(lines: Sequence[PolicyCurve]) -> str:
    return ", ".join(f"{line.policy} {line.mean[-1]:.4g} at the end" for line in lines)

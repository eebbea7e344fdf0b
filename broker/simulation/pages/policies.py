"""Curves of a simulation, a line a policy, with the range over seeds behind it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from broker.simulation.answers.simulations import Curve, PolicyCurve, SimulationAnswer, thinned
from broker.web.pictures.bars import element, nice_limit
from broker.web.pictures.over_time import HEIGHT, WIDTH, Below, chart

MOST_POINTS = 5000
"""Of all lines of a page, which stays below 150 kB."""
MOST_LINES = 6
"""Policies in one picture: more have no style of their own, and are in the table."""
LINE_STYLES = ("solid", "long dashes", "dots", "dash and dot", "short dashes", "fine dots")
"""Of the lines in their order, as the style sheet has them: colours alone do not tell them apart for everybody."""
MOST_CURVES = 12
ROWS = 7


@dataclass(frozen=True)
class Drawn:
    """One curve of a page: its name, the picture, and the same in figures at some of the hours.

    Attributes:
        name: of the curve.
        picture: with a line a policy.
        policies: heads of the columns.
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


def drawn_curves(found: SimulationAnswer) -> list[Drawn]:
    """The curves of a simulation, the first ``MOST_CURVES`` of them."""
    curves = found.curves[:MOST_CURVES]
    lines = sum(min(len(curve.lines), MOST_LINES) for curve in curves)
    most = max(8, min(96, MOST_POINTS // (3 * max(1, lines))))
    return [_drawn(curve, most) for curve in curves]


def _drawn(curve: Curve, most: int) -> Drawn:
    places = thinned(len(curve.hours), ROWS)
    return Drawn(
        curve.name,
        policies_over_hours(curve, most),
        tuple(line.policy for line in curve.lines),
        tuple((curve.hours[place], tuple(line.mean[place] for line in curve.lines)) for place in places),
    )


def policies_over_hours(curve: Curve, most: int) -> Markup:
    """One curve: the mean over seeds of each policy as a line, lowest to highest as a band.

    Args:
        curve: with the same hours for all policies.
        most: points of a line.
    """
    places = thinned(len(curve.hours), most)
    lines = curve.lines[:MOST_LINES]
    first, last = curve.hours[0], curve.hours[-1]
    largest = nice_limit(max((max(line.high, default=0.0) for line in lines), default=0.0))
    span = (last - first) or 1.0

    def place(at: int, value: float) -> str:
        return f"{WIDTH * (curve.hours[at] - first) / span:.0f},{HEIGHT * (1 - value / largest):.1f}"

    def points(values: Sequence[float], chosen: Sequence[int]) -> str:
        return " ".join(place(at, values[at]) for at in chosen)

    inner: list[Markup] = []
    back = list(reversed(places))
    for number, line in enumerate(lines):
        if line.low != line.high:
            around = f"{points(line.high, places)} {points(line.low, back)}"
            inner.append(element("polygon", points=around, class_=f"range policy-{number}"))
    for number, line in enumerate(lines):
        said = [element("title", line.policy)]
        inner.append(element("polyline", said, points=points(line.mean, places), class_=f"line policy-{number}"))
    title = f"{curve.name} from hour {first:g} to {last:g}: {_said(lines)}"
    return chart(title, largest, inner, [Below(0.0, f"{first:g} h"), Below(1.0, f"{last:g} h")])


def _said(lines: Sequence[PolicyCurve]) -> str:
    return ", ".join(f"{line.policy} {line.mean[-1]:.4g} at the end" for line in lines)

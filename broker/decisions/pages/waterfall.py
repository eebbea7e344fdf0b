"""How the candidates of a decision become fewer, rule by rule. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from broker.web.formats import in_path
from broker.web.pictures.scale import cut, label, link, picture, rectangle

WIDTH, ROW, LEFT, RIGHT = 720.0, 22.0, 190.0, 70.0


@dataclass(frozen=True)
class Step:
    """One rule: its code, how many it rejected, and how many were left."""

    code: str
    rejected: int
    remaining: int


def waterfall(start: int, steps: Sequence[Step], chosen: int, kind: str = "queue") -> Markup:
    """One bar a rule: what it rejected, beginning where the rule before it ended."""
    largest = max(start, 1)
    across = WIDTH - LEFT - RIGHT

    def x(value: float) -> float:
        return LEFT + across * value / largest

    rows = [label(LEFT - 8, 15, "candidates", anchor="end"), rectangle(LEFT, 3, x(start) - LEFT, ROW - 6, "bar-all")]
    rows.append(label(x(start) + 6, 15, f"{start:,}"))
    top = ROW
    for step in steps:
        rows.append(
            link(f"/reasons/{in_path(step.code)}", [label(LEFT - 8, top + 15, cut(step.code, 26), anchor="end")])
        )
        title = f"{step.code}: rejected {step.rejected:,}, left {step.remaining:,}"
        rows.append(rectangle(LEFT, top + 3, x(step.remaining) - LEFT, ROW - 6, "bar-left"))
        rows.append(
            rectangle(x(step.remaining), top + 3, max(1.5, x(step.rejected) - LEFT), ROW - 6, "bar-lost", title)
        )
        rows.append(label(x(step.remaining + step.rejected) + 6, top + 15, f"−{step.rejected:,}"))  # noqa: RUF001
        top += ROW
    rows.append(label(LEFT - 8, top + 15, "chosen", anchor="end"))
    rows.append(rectangle(LEFT, top + 3, max(1.5, x(chosen) - LEFT), ROW - 6, "bar-good", f"{chosen:,} chosen"))
    rows.append(label(x(chosen) + 6, top + 15, f"{chosen:,}"))
    said = f"{start:,} candidates ({kind}), {chosen:,} chosen; rejected: "
    said += ", ".join(f"{step.code} {step.rejected:,}" for step in steps) or "none"
    return picture(WIDTH, top + ROW + 2, said, rows)

"""Grids of cells: queues against rules, sites against nuclei. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from broker.web.pictures.bars import cut, element, heat, label, link, picture, rectangle

CELL, LEFT, TOP = 18.0, 190.0, 110.0


@dataclass(frozen=True)
class Cell:
    """One cell: how much, what it says, where it leads, and whether it is at its limit."""

    value: float
    text: str
    address: str | None = None
    full: bool = False


def cells(
    title: str,
    rows: Sequence[tuple[str, str | None]],
    columns: Sequence[tuple[str, str | None]],
    found: Mapping[tuple[str, str], Cell],
) -> Markup:
    """A grid: rows and columns with their names and where they lead; what is not found is empty."""
    largest = max((cell.value for cell in found.values()), default=0.0)
    drawn: list[Markup] = []
    for at, (name, address) in enumerate(columns):
        x = LEFT + at * CELL + 13
        text = element("text", cut(name, 18), class_="label", transform=f"translate({x:.0f},{TOP - 6:.0f}) rotate(-60)")
        drawn.append(text if address is None else link(address, [text]))
    for at, (name, address) in enumerate(rows):
        y = TOP + at * CELL
        text = label(LEFT - 8, y + 13, cut(name, 26), anchor="end")
        drawn.append(text if address is None else link(address, [text]))
        for column, (other, _) in enumerate(columns):
            cell = found.get((name, other))
            if cell is None:
                continue
            class_ = "full" if cell.full else heat(cell.value, largest)
            box = rectangle(LEFT + column * CELL, y, CELL - 1, CELL - 1, class_, cell.text)
            drawn.append(box if cell.address is None else link(cell.address, [box]))
    width = LEFT + len(columns) * CELL + 60
    return picture(max(width, 500.0), TOP + len(rows) * CELL + 4, title, drawn)

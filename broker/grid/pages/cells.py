"""Grids of cells: queues against rules, sites against nuclei. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from broker.web.pictures.bars import element, heat, label, link, picture, rectangle

CELL, LETTER = 18.0, 7.4
"""Width of a cell, and approximate width of a letter."""


@dataclass(frozen=True)
class Cell:
    """One cell: its value, text and link, and whether it is at its limit."""

    value: float
    text: str
    address: str | None = None
    full: bool = False


def cells(
    title: str,
    rows: Sequence[tuple[str, str | None]],
    columns: Sequence[tuple[str, str | None]],
    cells_by_pair: Mapping[tuple[str, str], Cell],
) -> Markup:
    """A grid of cells: rows and columns are names with links; a pair without a cell is empty."""
    largest = max((cell.value for cell in cells_by_pair.values()), default=0.0)
    left = 16 + LETTER * max((len(name) for name, _ in rows), default=0)
    slanted = LETTER * max((len(name) for name, _ in columns), default=0)
    top = 12 + 0.87 * slanted
    drawn: list[Markup] = []
    for index, (name, address) in enumerate(columns):
        x = left + index * CELL + 13
        text = element("text", name, class_="label", transform=f"translate({x:.0f},{top - 6:.0f}) rotate(-60)")
        drawn.append(text if address is None else link(address, [text]))
    for index, (name, address) in enumerate(rows):
        y = top + index * CELL
        text = label(left - 8, y + 13, name, anchor="end")
        drawn.append(text if address is None else link(address, [text]))
        for column, (other, _) in enumerate(columns):
            cell = cells_by_pair.get((name, other))
            if cell is None:
                continue
            class_ = "full" if cell.full else heat(cell.value, largest)
            box = rectangle(left + column * CELL, y, CELL - 1, CELL - 1, class_, cell.text)
            drawn.append(box if cell.address is None else link(cell.address, [box]))
    width = left + len(columns) * CELL + slanted / 2 + 16
    return picture(width, top + len(rows) * CELL + 4, title, drawn)

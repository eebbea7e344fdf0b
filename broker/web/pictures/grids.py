"""Grids of cells: queues against rules, sites against nuclei; and the map of the grid. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from broker.web.formats import in_path
from broker.web.pictures.scale import cut, element, heat, label, link, picture, rectangle

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


@dataclass(frozen=True)
class Site:
    """A site of the map: its tier and cloud, what runs and waits there, and whether it is a nucleus."""

    name: str
    tier: str
    cloud: str
    running: int
    queued: int
    placed: int
    online: bool
    nucleus: bool


def grid_map(sites: Sequence[Site]) -> Markup:
    """The grid by tier and cloud: a tile a site, as wide as what runs there, shaded by what waits."""
    tiers, clouds = sorted({site.tier for site in sites}), sorted({site.cloud for site in sites})
    largest_queued = max((site.queued for site in sites), default=0)
    largest_placed = max((site.placed for site in sites), default=0)
    drawn: list[Markup] = []
    top = 6.0
    for cloud in clouds:
        drawn.append(label(0, top + 14, cut(cloud, 14), "heading"))
        deepest = top + 24
        for column, tier in enumerate(tiers):
            x, y = 110.0 + column * 280.0, top
            for site in sorted(
                (one for one in sites if (one.cloud, one.tier) == (cloud, tier)), key=lambda one: one.name
            ):
                drawn.append(_tile(site, x, y, largest_queued, largest_placed))
                y += 24
            deepest = max(deepest, y)
        top = deepest + 6
        drawn.append(element("line", x1=0, x2=110 + len(tiers) * 280, y1=top - 4, y2=top - 4, class_="lane"))
    heads = [label(110.0 + column * 280.0, 12, tier, "heading") for column, tier in enumerate(tiers)]
    inner = [element("g", drawn, transform="translate(0,16)"), *heads]
    running, queued = sum(site.running for site in sites), sum(site.queued for site in sites)
    said = f"{len(sites)} sites by tier and cloud: {running:,} jobs run, {queued:,} wait"
    return picture(110 + max(1, len(tiers)) * 280, top + 24, said, inner)


def _tile(site: Site, x: float, y: float, largest_queued: int, largest_placed: int) -> Markup:
    said = (
        f"{site.name}: {site.running:,} run, {site.queued:,} wait, {site.placed:,} placed by the last cycles"
        f"{'' if site.online else ', not online'}{', nucleus' if site.nucleus else ''}"
    )
    class_ = heat(site.queued, largest_queued) if site.online else "closed"
    placed = 90.0 * site.placed / max(1, largest_placed)
    mark = "◆ " if site.nucleus else ""
    inner = [
        rectangle(x, y, 14, 20, class_, said),
        label(x + 20, y + 14, mark + cut(site.name, 18)),
        rectangle(x + 170, y + 5, placed, 10, "bar-good", said),
    ]
    return link(f"/queues?site={in_path(site.name)}", inner)

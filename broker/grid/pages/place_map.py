"""The map of the grid by latitude and longitude, without a background: parts of the world beside one another. Pure.

Sites that are far from all others begin a part of their own, and each part is as large as the sites in it need. A name
stands where it covers no other name and no site, with a line to its site; a name that has no place is left to the table
below the map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from broker.grid.pages.grid_map import Flow, Site, bands, said_of
from broker.web.formats import in_path
from broker.web.pictures.bars import element, heat, label, link, picture

APART_DEG = 30.0
"""So many degrees of longitude without a site part the world."""
LETTER, BOLD_LETTER, LINE, SMALLEST, LARGEST = 7.8, 8.8, 14.0, 5.0, 14.0
MARGIN, HEADING, GAP = 16.0, 22.0, 24.0
DIRECTIONS = 16
REACHES = (6.0, 18.0, 32.0, 48.0, 66.0, 86.0)
"""How far a name may stand from the edge of its site, the nearest first."""
Place = tuple[float, float]


@dataclass(frozen=True)
class Frame:
    """How large the picture is: ``beside`` parts stand beside one another, else above one another and without links."""

    width: float
    height: float
    beside: bool


DESK, PHONE = Frame(1310.0, 640.0, True), Frame(334.0, 520.0, False)


@dataclass(frozen=True)
class Box:
    """A rectangle of the picture."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether both have a part in common."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def place_map(sites: Sequence[Site], flows: Sequence[Flow], frame: Frame) -> Markup:
    """A dot a site that has a place, as large as what runs there, shaded by what waits; at a desk bands for links."""
    there = [site for site in sites if site.place is not None]
    boxes = _boxes(parts := _parts(there), frame)
    places: dict[str, Place] = {}
    drawn: list[Markup] = []
    for some, box in zip(parts, boxes, strict=True):
        places |= _placed(some, box)
        drawn.append(label(box.left, box.top - 8, _title(some), "heading"))
        drawn.append(element("line", x1=box.left, x2=box.right, y1=box.top - 2, y2=box.top - 2, class_="lane"))
    if frame.beside:
        drawn += bands(flows, places)
    running, queued = (max((getattr(site, name) for site in there), default=0) for name in ("running", "queued"))
    sizes = {site.name: _size(site.running, running) for site in there}
    names = _names(there, places, sizes, boxes)
    for site in there:
        drawn.append(_dot(site, places[site.name], sizes[site.name], queued, names.get(site.name)))
    said = (
        f"{len(there)} sites by latitude and longitude: {sum(site.running for site in there):,} jobs run, "
        f"{sum(site.queued for site in there):,} wait, {sum(site.failed for site in there):,} failed lately"
    )
    return picture(frame.width, frame.height, said, drawn)


def _parts(sites: Sequence[Site]) -> list[list[Site]]:
    """The sites from west to east, parted where there is none for long."""
    found: list[list[Site]] = []
    last = -math.inf
    for site in sorted(sites, key=lambda one: (_at(one)[1], one.name)):
        if _at(site)[1] - last > APART_DEG:
            found.append([])
        found[-1].append(site)
        last = _at(site)[1]
    return found


def _at(site: Site) -> Place:
    return site.place or (0.0, 0.0)


def _boxes(parts: Sequence[Sequence[Site]], frame: Frame) -> list[Box]:
    """Where each part is drawn: its room grows as the root of how many sites it has."""
    room = [math.sqrt(len(some)) + 1 for some in parts]
    across = frame.width if frame.beside else frame.height - HEADING
    free = across - GAP * (len(parts) - 1) - (0 if frame.beside else HEADING * (len(parts) - 1))
    found, at = [], 0.0 if frame.beside else HEADING
    for one in room:
        long = free * one / sum(room)
        if frame.beside:
            found.append(Box(at, HEADING, at + long, frame.height))
            at += long + GAP
        else:
            found.append(Box(0.0, at, frame.width, at + long))
            at += long + GAP + HEADING
    return found


def _placed(sites: Sequence[Site], box: Box) -> dict[str, Place]:
    """Degrees as places in the box, each axis stretched to fill it."""
    north, east = [_at(one)[0] for one in sites], [_at(one)[1] for one in sites]

    def along(value: float, values: Sequence[float], first: float, last: float) -> float:
        low, high = min(values), max(values)
        return (first + last) / 2 if high == low else first + (value - low) / (high - low) * (last - first)

    side = MARGIN + (box.right - box.left) / 8
    return {
        site.name: (
            along(y, east, box.left + side, box.right - side),
            along(x, north, box.bottom - MARGIN - LINE, box.top + MARGIN + LINE),
        )
        for site in sites
        for x, y in [_at(site)]
    }


def _title(sites: Sequence[Site]) -> str:
    east = sorted(_at(one)[1] for one in sites)
    return _degrees(east[0]) if round(east[0]) == round(east[-1]) else f"{_degrees(east[0])} to {_degrees(east[-1])}"


def _degrees(east: float) -> str:
    return f"{abs(east):.0f}° {'E' if east >= 0 else 'W'}"


def _size(running: int, largest: int) -> float:
    return SMALLEST + (LARGEST - SMALLEST) * math.sqrt(running / largest) if largest else SMALLEST


def _names(
    sites: Sequence[Site], places: Mapping[str, Place], sizes: Mapping[str, float], boxes: Sequence[Box]
) -> dict[str, tuple[Box, str]]:
    """Where names stand, and on which side of it their text begins; those of busy sites are placed first."""
    taken = [
        Box(x - size, y - size, x + size, y + size) for name, (x, y) in places.items() for size in (sizes[name] + 1,)
    ]
    found: dict[str, tuple[Box, str]] = {}
    for site in sorted(sites, key=lambda one: (-(one.running + one.queued), one.name)):
        x, y = places[site.name]
        inside = next(box for box in boxes if box.left <= x <= box.right and box.top <= y <= box.bottom)
        for box, anchor in _tried(x, y, sizes[site.name], (BOLD_LETTER if site.nucleus else LETTER) * len(site.name)):
            fits = box.left >= inside.left and box.right <= inside.right
            fits = fits and box.top >= inside.top and box.bottom <= inside.bottom
            if fits and not any(box.meets(other) for other in taken):
                found[site.name] = (box, anchor)
                taken.append(box)
                break
    return found


def _tried(x: float, y: float, size: float, wide: float) -> Iterator[tuple[Box, str]]:
    for reach in REACHES:
        for step in range(DIRECTIONS):
            # right, left, then between
            angle = math.tau * ((step % 2) / 2 + step // 2 / DIRECTIONS)
            across, down = x + (size + reach) * math.cos(angle), y + (size + reach) * math.sin(angle)
            starts = math.cos(angle) >= 0
            left = across if starts else across - wide
            yield Box(left, down - LINE / 2, left + wide, down + LINE / 2), "start" if starts else "end"


def _dot(site: Site, at: Place, size: float, largest_queued: int, name: tuple[Box, str] | None) -> Markup:
    x, y = at
    class_ = heat(site.queued, largest_queued) if site.online else "closed"
    ring = " failing" if site.failing else ""
    inner = [element("circle", [element("title", said_of(site))], cx=x, cy=y, r=size, class_=f"place {class_}{ring}")]
    if name is not None:
        box, anchor = name
        middle = (box.top + box.bottom) / 2
        edge = box.left if anchor == "start" else box.right
        if math.hypot(edge - x, middle - y) > size + REACHES[0] + 1:
            inner.append(element("line", x1=x, y1=y, x2=edge, y2=middle, class_="axis"))
        inner.append(label(edge, middle + 4, site.name, "heading" if site.nucleus else "label", anchor))
    return link(f"/queues?site={in_path(site.name)}", inner)

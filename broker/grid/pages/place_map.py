"""The map of the grid by latitude and longitude, without a background: parts of the world side by side. Pure.

Sites that are far from all others start their own part, and each part is as large as its sites need. A name is placed
where it covers no other name and no site, with a line to its site; a name without such a place appears only in the
table below the map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from broker.grid.pages.grid_map import Flow, Site, bands, site_caption
from broker.web.formats import in_path
from broker.web.pictures.bars import element, heat, label, link, picture

APART_DEG = 30.0
"""Degrees of longitude without a site that separate two parts of the world."""
LETTER, BOLD_LETTER, LINE, SMALLEST, LARGEST = 7.8, 8.8, 14.0, 5.0, 14.0
MARGIN, HEADING, GAP = 16.0, 22.0, 24.0
DIRECTIONS = 16
REACHES = (6.0, 18.0, 32.0, 48.0, 66.0, 86.0)
"""Distances at which a name may stand from the edge of its site, the nearest first."""
Place = tuple[float, float]


@dataclass(frozen=True)
class Frame:
    """The size of the picture; ``beside``: parts stand side by side, otherwise in a column and without links."""

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
        """Whether the two boxes overlap."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def place_map(sites: Sequence[Site], flows: Sequence[Flow], frame: Frame) -> Markup:
    """One dot per site with a place, sized by running jobs, shaded by waiting ones; in a wide frame bands for links."""
    dots = [site for site in sites if site.place is not None]
    boxes = _boxes(parts := _parts(dots), frame)
    places: dict[str, Place] = {}
    drawn: list[Markup] = []
    for part, box in zip(parts, boxes, strict=True):
        places |= _positions(part, box)
        drawn.append(label(box.left, box.top - 8, _title(part), "heading"))
        drawn.append(element("line", x1=box.left, x2=box.right, y1=box.top - 2, y2=box.top - 2, class_="lane"))
    if frame.beside:
        drawn += bands(flows, places)
    running, queued = (max((getattr(site, name) for site in dots), default=0) for name in ("running", "queued"))
    sizes = {site.name: _size(site.running, running) for site in dots}
    names = _names(dots, places, sizes, boxes)
    for site in dots:
        drawn.append(_dot(site, places[site.name], sizes[site.name], queued, names.get(site.name)))
    caption = (
        f"{len(dots)} sites by latitude and longitude: {sum(site.running for site in dots):,} jobs run, "
        f"{sum(site.queued for site in dots):,} wait, {sum(site.failed for site in dots):,} failed recently"
    )
    return picture(frame.width, frame.height, caption, drawn)


def _parts(sites: Sequence[Site]) -> list[list[Site]]:
    """The sites from west to east, split at wide gaps in longitude."""
    parts: list[list[Site]] = []
    last = -math.inf
    for site in sorted(sites, key=lambda site: (_degrees_of(site)[1], site.name)):
        if _degrees_of(site)[1] - last > APART_DEG:
            parts.append([])
        parts[-1].append(site)
        last = _degrees_of(site)[1]
    return parts


def _degrees_of(site: Site) -> Place:
    return site.place or (0.0, 0.0)


def _boxes(parts: Sequence[Sequence[Site]], frame: Frame) -> list[Box]:
    """The box of each part: its size grows with the square root of its number of sites."""
    room = [math.sqrt(len(part)) + 1 for part in parts]
    across = frame.width if frame.beside else frame.height - HEADING
    free = across - GAP * (len(parts) - 1) - (0 if frame.beside else HEADING * (len(parts) - 1))
    boxes, offset = [], 0.0 if frame.beside else HEADING
    for weight in room:
        length = free * weight / sum(room)
        if frame.beside:
            boxes.append(Box(offset, HEADING, offset + length, frame.height))
            offset += length + GAP
        else:
            boxes.append(Box(0.0, offset, frame.width, offset + length))
            offset += length + GAP + HEADING
    return boxes


def _positions(sites: Sequence[Site], box: Box) -> dict[str, Place]:
    """Positions of the sites in the box, each axis stretched to fill it."""
    north, east = [_degrees_of(site)[0] for site in sites], [_degrees_of(site)[1] for site in sites]

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
        for x, y in [_degrees_of(site)]
    }


def _title(sites: Sequence[Site]) -> str:
    east = sorted(_degrees_of(site)[1] for site in sites)
    return _degrees(east[0]) if round(east[0]) == round(east[-1]) else f"{_degrees(east[0])} to {_degrees(east[-1])}"


def _degrees(east: float) -> str:
    return f"{abs(east):.0f}° {'E' if east >= 0 else 'W'}"


def _size(running: int, largest: int) -> float:
    return SMALLEST + (LARGEST - SMALLEST) * math.sqrt(running / largest) if largest else SMALLEST


def _names(
    sites: Sequence[Site], places: Mapping[str, Place], sizes: Mapping[str, float], boxes: Sequence[Box]
) -> dict[str, tuple[Box, str]]:
    """The box of each name, and the side on which its text starts; names of busy sites are placed first."""
    taken = [
        Box(x - size, y - size, x + size, y + size) for name, (x, y) in places.items() for size in (sizes[name] + 1,)
    ]
    names: dict[str, tuple[Box, str]] = {}
    for site in sorted(sites, key=lambda site: (-(site.running + site.queued), site.name)):
        x, y = places[site.name]
        inside = next(box for box in boxes if box.left <= x <= box.right and box.top <= y <= box.bottom)
        for box, anchor in _name_boxes(
            x, y, sizes[site.name], (BOLD_LETTER if site.nucleus else LETTER) * len(site.name)
        ):
            fits = box.left >= inside.left and box.right <= inside.right
            fits = fits and box.top >= inside.top and box.bottom <= inside.bottom
            if fits and not any(box.meets(other) for other in taken):
                names[site.name] = (box, anchor)
                taken.append(box)
                break
    return names


def _name_boxes(x: float, y: float, size: float, width: float) -> Iterator[tuple[Box, str]]:
    for reach in REACHES:
        for step in range(DIRECTIONS):
            # right, left, then between
            angle = math.tau * ((step % 2) / 2 + step // 2 / DIRECTIONS)
            across, down = x + (size + reach) * math.cos(angle), y + (size + reach) * math.sin(angle)
            starts = math.cos(angle) >= 0
            left = across if starts else across - width
            yield Box(left, down - LINE / 2, left + width, down + LINE / 2), "start" if starts else "end"


def _dot(site: Site, place: Place, size: float, largest_queued: int, name: tuple[Box, str] | None) -> Markup:
    x, y = place
    class_ = heat(site.queued, largest_queued) if site.online else "closed"
    ring = " failing" if site.failing else ""
    inner = [
        element("circle", [element("title", site_caption(site))], cx=x, cy=y, r=size, class_=f"place {class_}{ring}")
    ]
    if name is not None:
        box, anchor = name
        middle = (box.top + box.bottom) / 2
        edge = box.left if anchor == "start" else box.right
        if math.hypot(edge - x, middle - y) > size + REACHES[0] + 1:
            inner.append(element("line", x1=x, y1=y, x2=edge, y2=middle, class_="axis"))
        inner.append(label(edge, middle + 4, site.name, "heading" if site.nucleus else "label", anchor))
    return link(f"/queues?site={in_path(site.name)}", inner)

"""The map of the grid: sites by cloud and tier, their waiting and running jobs, and the links between them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from broker.web.formats import in_path
from broker.web.pictures.bars import element, heat, label, link, picture, rectangle

LETTER, BAR, ROW, GAP, TOP = 7.0, 50.0, 22.0, 30.0, 22.0
BESIDE_NAME = 19 + BAR + 100
"""Width of a tile besides its name: the shade, the bar with its figure, and the failures."""
MOST_BESIDE, WIDEST_LINK = 3, 6.0
#: Maximum number of a tier's sites in one column of a cloud; more sites start another column.
ABOVE_ONE_ANOTHER = 8
Place = tuple[float, float]


@dataclass(frozen=True)
class Site:
    """A site of the map.

    Attributes:
        name: name of the site.
        tier: tier of its queues.
        cloud: cloud of its queues.
        running: running jobs.
        queued: waiting jobs.
        placed: jobs that it got in the last hour.
        online: whether any of its queues is online.
        nucleus: whether it is a nucleus.
        failed: jobs that failed there recently.
        ended: jobs that ended there recently.
        failing: whether one of its queues fails by the limits of alarms.
        place: degrees north and east; None: not known.
    """

    name: str
    tier: str
    cloud: str
    running: int
    queued: int
    placed: int
    online: bool
    nucleus: bool
    failed: int = 0
    ended: int = 0
    failing: bool = False
    place: tuple[float, float] | None = None


@dataclass(frozen=True)
class Flow:
    """A link: the files queued on it, and the cap (None: not known)."""

    source: str
    target: str
    files: float
    cap: float | None

    @property
    def load(self) -> float:
        """Files divided by the cap; 1 or more: full."""
        return self.files / self.cap if self.cap else 0.0


def grid_map(sites: Sequence[Site], flows: Sequence[Flow] = ()) -> Markup:
    """One tile per site, shaded by waiting jobs, with a bar for placed jobs; links as bands, as wide as their load."""
    left = 16 + LETTER * max((len(site.cloud) for site in sites), default=0)
    tile = BESIDE_NAME + LETTER * max((len(site.name) for site in sites), default=0)
    places, clouds, tiers, height = _layout(sites, left, tile)
    queued = max((site.queued for site in sites), default=0)
    placed = max((site.placed for site in sites), default=0)
    width = max((x for x, _ in tiers.values()), default=left) + max((wide for _, wide in tiers.values()), default=tile)
    drawn = [label(x, 12, tier, "heading") for tier, (x, _) in tiers.items()]
    for cloud, y in clouds.items():
        drawn.append(label(0, y + 14, cloud, "heading"))
        drawn.append(element("line", x1=0, x2=width, y1=y - 4, y2=y - 4, class_="lane"))
    drawn += bands(flows, {name: (x + 7, y + 10) for name, (x, y) in places.items()})
    drawn += [_tile(site, *places[site.name], tile, queued, placed) for site in sites]
    placed_jobs, links = sum(site.placed for site in sites), sum(1 for flow in flows if _ends(flow, places))
    caption = (
        f"{len(sites)} sites by tier and cloud: {sum(site.running for site in sites):,} jobs run, "
        f"{sum(site.queued for site in sites):,} wait, {placed_jobs:,} were placed in the last hour; {links} links"
    )
    return picture(width, height, caption, drawn)


def _layout(
    sites: Sequence[Site], first: float, tile: float
) -> tuple[dict[str, Place], dict[str, float], dict[str, tuple[float, float]], float]:
    """Position of each site, top of each cloud, left edge and width of each tier, and the total height."""
    cells: dict[tuple[str, str], list[str]] = {}
    for site in sorted(sites, key=lambda site: site.name):
        cells.setdefault((site.cloud, site.tier), []).append(site.name)
    beside = {
        tier: min(
            MOST_BESIDE,
            -(-max(len(names) for (_, other), names in cells.items() if other == tier) // ABOVE_ONE_ANOTHER),
        )
        for _, tier in cells
    }
    tiers, x = {}, first
    for tier in sorted(beside):
        tiers[tier] = (x, beside[tier] * tile)
        x += beside[tier] * tile + GAP
    places: dict[str, Place] = {}
    clouds, top = {}, TOP
    for cloud in sorted({cloud for cloud, _ in cells}):
        clouds[cloud], deepest = top, 1
        for tier, (left, _) in tiers.items():
            names = cells.get((cloud, tier), [])
            rows = -(-len(names) // beside[tier])
            deepest = max(deepest, rows)
            for index, name in enumerate(names):
                places[name] = (left + index // max(1, rows) * tile, top + index % max(1, rows) * ROW)
        top += deepest * ROW + 10
    return places, clouds, tiers, top


def _ends(flow: Flow, places: Mapping[str, Place]) -> tuple[Place, Place] | None:
    """The two ends of a link; None if an end is not on the map, or both are the same."""
    if flow.source == flow.target or flow.source not in places or flow.target not in places:
        return None
    return places[flow.source], places[flow.target]


def bands(flows: Sequence[Flow], places: Mapping[str, Place]) -> Iterator[Markup]:
    """The links between sites on the map, the fullest on top."""
    for flow in sorted(flows, key=lambda one: one.load):
        ends = _ends(flow, places)
        if ends is None:
            continue
        (x1, y1), (x2, y2) = ends
        # sites of one row of tiles are linked by an arc to the left of them
        bend = (x1 + x2) / 2 if abs(x1 - x2) > 1 else x1 - 30
        caption = f"{flow.source} to {flow.target}: {flow.files:,.0f} files queue"
        caption += f" of {flow.cap:,.0f}" if flow.cap else ""
        band = element(
            "path",
            [element("title", caption)],
            d=f"M{x1:.0f},{y1:.0f} C{bend:.0f},{y1:.0f} {bend:.0f},{y2:.0f} {x2:.0f},{y2:.0f}",
            stroke_width=1 + (WIDEST_LINK - 1) * min(1.0, flow.load),
            class_="band full-band" if flow.load > 1 else "band",
        )
        yield link(f"/links?source={in_path(flow.source)}&nucleus={in_path(flow.target)}", [band])


def site_caption(site: Site) -> str:
    """A site in words."""
    failed = f", {site.failed:,} of {site.ended:,} that ended recently failed" if site.failed else ""
    return (
        f"{site.name}: {site.running:,} run, {site.queued:,} wait, {site.placed:,} placed in the last hour{failed}"
        f"{'' if site.online else ', not online'}{', nucleus' if site.nucleus else ''}"
    )


def _tile(site: Site, x: float, y: float, tile: float, largest_queued: int, largest_placed: int) -> Markup:
    caption = site_caption(site)
    class_ = heat(site.queued, largest_queued) if site.online else "closed"
    name = label(x + 19, y + 14, ("◆ " if site.nucleus else "") + site.name)
    inner = [rectangle(x, y + 2, 14, 16, class_, caption), name]
    bar = x + tile - BAR - 78
    if site.placed:
        length = max(2.0, BAR * site.placed / largest_placed)
        inner.append(rectangle(bar, y + 5, length, 10, "bar-good", caption))
        inner.append(label(bar + 3 + length, y + 14, f"{site.placed:,}"))
    if site.failed:
        inner.append(label(x + tile - 42, y + 14, f"✕ {site.failed:,}", "lost"))
    return link(f"/queues?site={in_path(site.name)}", inner)

"""The map of the grid: its sites by place or by tier, and the links between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import Query, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.state import At, State, query_context
from broker.grid.answers.links import links
from broker.grid.answers.models import LinkFilters, Links, QueueLine, Queues
from broker.grid.answers.queues import PlacedJobs, Places, nuclei, placed_lately, places, queues
from broker.grid.pages.grid_map import Flow, Site, grid_map
from broker.grid.pages.place_map import DESK, PHONE, place_map
from broker.service.answers.alarms import QueueOutcomes, failing_queues, load_limits
from broker.web.rendering import page_router, show
from broker.web.time_range import time_shown

router = page_router(tag="map")
MOST_LINKS = 40
MapBy = Literal["place", "tier"]


@router.get("/map")
@allow(READ)
def map_of_grid(
    request: Request,
    api: State,
    at: At = None,
    by: Annotated[MapBy | None, Query(description="How sites are placed; by place where that is known.")] = None,
) -> Response:
    """The sites by latitude and longitude where these are known, else by tier and cloud."""
    with query_context(api, at) as query:
        queue_list, nodes, where, moved = (
            queues(query),
            nuclei(query),
            places(query),
            links(query, LinkFilters(limit=MOST_LINKS)),
        )
        placed_jobs, ended = placed_lately(query), failing_queues(query, load_limits(query.config))
    sites = sites_of(
        queue_list, where, placed_jobs, {line.nucleus for line in nodes.nuclei if line.role == "nucleus"}, ended
    )
    placed = [site for site in sites if site.place is not None]
    layout = by or ("place" if 2 * len(placed) > len(sites) else "tier")
    pictures = [grid_map(sites, flows(moved))]
    if layout == "place":
        pictures = [place_map(sites, flows(moved), frame) for frame in (DESK, PHONE)]
    answers = {"queues": queue_list, "nuclei": nodes, "places": where, "placed": placed_jobs, "links": moved}
    return show(
        request,
        "grid/map",
        answers,
        title="Map of the grid",
        pictures=lambda: pictures,
        sites=sorted(sites, key=lambda site: (-site.failed, -(site.running + site.queued), site.name)),
        shown=layout,
        nowhere=len(sites) - len(placed),
        choices=[
            {
                "word": word,
                "count": None,
                "address": str(request.url.include_query_params(by=name).replace(scheme="", netloc="")),
                "on": name == layout,
            }
            for name, word in (("place", "by place"), ("tier", "by tier and cloud"))
        ],
        time=time_shown(request, at, queue_list.now),
    )


def flows(link_list: Links) -> list[Flow]:
    """Return the links on which files are queued."""
    return [
        Flow(link.source, link.nucleus, link.queued_files, link.cap_files)
        for link in link_list.links
        if link.queued_files
    ]


def sites_of(
    queue_list: Queues,
    where: Places,
    placed: PlacedJobs,
    nuclei_names: set[str],
    ended: Mapping[str, QueueOutcomes] | None = None,
) -> list[Site]:
    """Return the sites of the queues; a queue without a site is one of its own."""
    by_site: defaultdict[str, list[QueueLine]] = defaultdict(list)
    for line in queue_list.queues:
        by_site[line.site or line.queue].append(line)
    sites = []
    for name, lines in by_site.items():
        outcomes = [ended[line.queue] for line in lines if ended and line.queue in ended]
        tier, cloud = where.tier.get(lines[0].queue), where.cloud.get(lines[0].queue)
        sites.append(
            Site(
                name=name,
                tier=tier or "tier not known",
                cloud=cloud or "no cloud",
                running=sum(line.jobs.running for line in lines),
                queued=sum(line.jobs.defined + line.jobs.assigned + line.jobs.activated for line in lines),
                placed=sum(placed.jobs.get(line.queue, 0) for line in lines),
                online=any(line.status == "online" for line in lines),
                nucleus=name in nuclei_names,
                failed=sum(outcome.failed for outcome in outcomes),
                ended=sum(outcome.failed + outcome.finished for outcome in outcomes),
                failing=any(outcome.is_failing for outcome in outcomes),
                place=next((where.degrees[line.queue] for line in lines if line.queue in where.degrees), None),
            )
        )
    return sites

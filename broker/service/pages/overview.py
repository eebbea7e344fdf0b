"""The first page, the service, and the map of the grid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Literal

from fastapi import Query, Response
from markupsafe import Markup
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.state import At, State, asking, installation_of
from broker.grid.answers.links import links
from broker.grid.answers.models import LinkFilters, Links, QueueLine, Queues, ShareLine, Shares
from broker.grid.answers.queues import Placed, Places, nuclei, placed_lately, places, queues
from broker.grid.answers.shares import shares
from broker.grid.pages.grid import shares_picture
from broker.grid.pages.grid_map import Flow, Site, grid_map
from broker.grid.pages.place_map import DESK, PHONE, place_map
from broker.history.answers.reasons import reasons
from broker.service.answers.alarm_sentences import AlarmLine, alarm_kinds
from broker.service.answers.alarms import QueueOutcomes, alarms, failing_queues, load_limits
from broker.service.answers.flow import work_flow
from broker.service.answers.models import ServiceAnswer
from broker.service.answers.overview import Activity, activity, cycle_times, hours_known
from broker.service.answers.service import service_answer
from broker.service.pages.front import figures, is_ill, tiles, waiting_by_code, what_waits
from broker.web.pictures.bars import histogram
from broker.web.pictures.over_time import Mark, outcomes_over_time, sparkline
from broker.web.rendering import for_reader, page_router, show
from broker.web.time_range import SomeHours, plot_address, time_shown

router = page_router(tag="overview")
MOST_LINKS, MOST_SHARES, MOST_ILL = 40, 8, 5
MapBy = Literal["place", "tier"]


@router.get("/")
@allow(READ)
def overview(request: Request, api: State, at: At = None, hours: SomeHours = None) -> Response:
    """Whether work flows, what waits and why, what is wrong, and where work runs; what changed."""
    installation = installation_of(api)
    with asking(api, at) as asked:
        # first, since leases are compared with the clock while the answers are of one instant
        running = service_answer(asked, installation) if at is None else None
        shown_h = hours or hours_known(asked)
        waiting, wrong, lately = reasons(asked), alarms(asked), activity(asked, timedelta(hours=shown_h))
        flowing, shared, found = work_flow(asked), shares(asked), queues(asked, with_decisions=False)
    if running is None:
        with asking(api, api.now()) as asked:
            running = service_answer(asked, installation)
    drawn = _activity_picture(for_reader(request, lately))
    answers = {
        "service": running,
        "reasons": waiting,
        "alarms": wrong,
        "activity": lately,
        "flow": flowing,
        "shares": shared,
    }
    # a tile says neither where a site is nor what it got
    nowhere, nothing = Places(tier={}, cloud={}, degrees={}), Placed(now=found.now, since=found.now, jobs={})
    sites = _sites(found, nowhere, nothing, set())
    return show(
        request,
        "overview",
        answers,
        title="Overview",
        alarm_lines=(kinds := alarm_kinds(wrong.alarms)),
        wrong=_wrong(kinds),
        ill=[one for one in running.agents if is_ill(one)],
        most_ill=MOST_ILL,
        well=sum(1 for one in running.agents if one.enabled and not is_ill(one)),
        leaders=sorted({one.holder for one in running.agents if one.holder}),
        last_cycle=max((one.finished_at for one in running.agents if one.finished_at), default=None),
        fresh=sum(1 for one in running.sources if one.state == "ok"),
        time=time_shown(request, at, lately.now, shown_h),
        plotted=plot_address("/plots/outcomes", at, shown_h),
        figures=figures(flowing),
        why=(why := waiting_by_code(waiting, flowing)),
        waits=what_waits(why, flowing),
        tiles=tiles(sites, {one.about for one in wrong.alarms if one.code in ("queue_failing", "queue_closed")}, found),
        picture=lambda: drawn,
        shares_drawn=lambda: shares_picture(shared.model_copy(update={"shares": _top(shared)})),
        line=lambda code, name: sparkline(f"{name} over the last hours", flowing.by_reason.get(code, ()), "wait"),
    )


def _wrong(kinds: Sequence[AlarmLine]) -> str:
    """How many alarms there are, and how many of them somebody looks at."""
    total, seen = (sum(len(one.alarms) for one in some) for some in (kinds, [one for one in kinds if one.looked_at]))
    return "" if not total else f"{total}, acknowledged {seen}" if seen else str(total)


def _top(found: Shares) -> tuple[ShareLine, ...]:
    """The shares that have a target, of the highest level that has more than one, the largest first."""
    for depth in sorted({one.depth for one in found.shares}):
        lines = [one for one in found.shares if one.depth == depth and one.target_percent]
        if len(lines) > 1:
            return tuple(sorted(lines, key=lambda one: -(one.target_percent or 0.0))[:MOST_SHARES])
    return found.shares[:MOST_SHARES]


def _activity_picture(found: Activity) -> Markup:
    marks = [Mark(one.at, one.kind, f"{one.about}: {one.detail}") for one in found.changes]
    steps = [(one.at, one.outcomes) for one in found.steps]
    return outcomes_over_time(found.since, found.now, found.step_s, steps, marks)


@router.get("/service")
@allow(READ)
def service(request: Request, api: State) -> Response:
    """The page ``/service``: agents with their cycles, processes, and sources with their ages."""
    installation = installation_of(api)
    with asking(api, api.now()) as asked:
        running, times, wrong = service_answer(asked, installation), cycle_times(asked), alarms(asked)
    drawn = {name: histogram(f"Cycles of {name}", values, "s") for name, values in times.seconds.items()}
    answers = {"service": running, "times": times, "alarms": wrong}
    return show(
        request,
        "service",
        answers,
        title="Service",
        sentence=service_sentence(running),
        alarm_lines=alarm_kinds(wrong.alarms),
        picture=drawn.__getitem__,
    )


def service_sentence(running: ServiceAnswer) -> str:
    """How many agents and sources are well, and which are not. Pure."""
    ill = [one.agent for one in running.agents if is_ill(one)]
    stale = [one.source for one in running.sources if one.state != "ok"]
    on = sum(1 for one in running.agents if one.enabled)
    agents = f"{on - len(ill)} of {on} agents are well{_named(ill)}" if on else "No agent is on"
    known = len(running.sources)
    sources = (
        f"{known - len(stale)} of {known} sources are fresh{_named(stale)}" if known else "there is no snapshot yet"
    )
    return f"{agents}; {sources}."


def _named(names: Sequence[str]) -> str:
    """The first names of those that are not so."""
    return f", not {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}" if names else ""


@router.get("/map")
@allow(READ)
def map_of_grid(
    request: Request,
    api: State,
    at: At = None,
    by: Annotated[MapBy | None, Query(description="How sites are placed; by place where that is known.")] = None,
) -> Response:
    """The sites by latitude and longitude where these are known, else by tier and cloud."""
    with asking(api, at) as asked:
        found, nodes, where, moved = (
            queues(asked),
            nuclei(asked),
            places(asked),
            links(asked, LinkFilters(limit=MOST_LINKS)),
        )
        got, ended = placed_lately(asked), failing_queues(asked, load_limits(asked.config))
    sites = _sites(found, where, got, {line.nucleus for line in nodes.nuclei if line.role == "nucleus"}, ended)
    placed = [site for site in sites if site.place is not None]
    shown = by or ("place" if 2 * len(placed) > len(sites) else "tier")
    pictures = [grid_map(sites, flows(moved))]
    if shown == "place":
        pictures = [place_map(sites, flows(moved), frame) for frame in (DESK, PHONE)]
    answers = {"queues": found, "nuclei": nodes, "places": where, "placed": got, "links": moved}
    return show(
        request,
        "map",
        answers,
        title="Map of the grid",
        pictures=lambda: pictures,
        sites=sorted(sites, key=lambda one: (-one.failed, -(one.running + one.queued), one.name)),
        shown=shown,
        nowhere=len(sites) - len(placed),
        choices=[
            {
                "word": word,
                "count": None,
                "address": str(request.url.include_query_params(by=name).replace(scheme="", netloc="")),
                "on": name == shown,
            }
            for name, word in (("place", "by place"), ("tier", "by tier and cloud"))
        ],
        time=time_shown(request, at, found.now),
    )


def flows(found: Links) -> list[Flow]:
    """The links on which files queue."""
    return [Flow(one.source, one.nucleus, one.queued_files, one.cap_files) for one in found.links if one.queued_files]


def _sites(
    found: Queues,
    where: Places,
    got: Placed,
    nuclei_names: set[str],
    ended: Mapping[str, QueueOutcomes] | None = None,
) -> list[Site]:
    by_site: defaultdict[str, list[QueueLine]] = defaultdict(list)
    for line in found.queues:
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
                placed=sum(got.jobs.get(line.queue, 0) for line in lines),
                online=any(line.status == "online" for line in lines),
                nucleus=name in nuclei_names,
                failed=sum(one.failed for one in outcomes),
                ended=sum(one.failed + one.finished for one in outcomes),
                failing=any(one.is_failing for one in outcomes),
                place=next((where.degrees[line.queue] for line in lines if line.queue in where.degrees), None),
            )
        )
    return sites

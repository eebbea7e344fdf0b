"""The first page, and the service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from fastapi import Response
from markupsafe import Markup
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.state import At, State, installation_of, query_context
from broker.grid.answers.models import ShareLine, Shares
from broker.grid.answers.queues import PlacedJobs, Places, queues
from broker.grid.answers.shares import shares
from broker.grid.pages.grid import shares_picture
from broker.grid.pages.sites import sites_of
from broker.history.answers.reasons import reasons
from broker.service.answers.alarm_sentences import AlarmLine, alarm_kinds
from broker.service.answers.alarms import alarms
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
MOST_SHARES, MOST_ILL = 8, 5


@router.get("/")
@allow(READ)
def overview(request: Request, api: State, at: At = None, hours: SomeHours = None) -> Response:
    """Whether work flows, what waits and why, what is wrong, and where work runs; what changed."""
    installation = installation_of(api)
    with query_context(api, at) as query:
        # first, since leases are compared with the clock, while the answers are for one instant
        running = service_answer(query, installation) if at is None else None
        shown_h = hours or hours_known(query)
        waiting, wrong, lately = reasons(query), alarms(query), activity(query, timedelta(hours=shown_h))
        flowing, shared, queue_list = work_flow(query), shares(query), queues(query, with_decisions=False)
    if running is None:
        with query_context(api, api.now()) as query:
            running = service_answer(query, installation)
    activity_picture = _activity_picture(for_reader(request, lately))
    answers = {
        "service": running,
        "reasons": waiting,
        "alarms": wrong,
        "activity": lately,
        "flow": flowing,
        "shares": shared,
    }
    # a tile shows neither where a site is nor what was placed there
    nowhere = Places(tier={}, cloud={}, degrees={})
    no_jobs = PlacedJobs(now=queue_list.now, since=queue_list.now, jobs={})
    sites = sites_of(queue_list, nowhere, no_jobs, set())
    return show(
        request,
        "service/overview",
        answers,
        title="Overview",
        alarm_lines=(kinds := alarm_kinds(wrong.alarms)),
        wrong=_alarms_text(kinds),
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
        tiles=tiles(
            sites, {one.about for one in wrong.alarms if one.code in ("queue_failing", "queue_closed")}, queue_list
        ),
        picture=lambda: activity_picture,
        shares_drawn=lambda: shares_picture(shared.model_copy(update={"shares": _top(shared)})),
        line=lambda code, name: sparkline(f"{name} over the last hours", flowing.by_reason.get(code, ()), "wait"),
    )


def _alarms_text(kinds: Sequence[AlarmLine]) -> str:
    """Describe how many alarms there are, and how many of them somebody is looking at."""
    total, acknowledged = (
        sum(len(one.alarms) for one in some) for some in (kinds, [one for one in kinds if one.looked_at])
    )
    return "" if not total else f"{total}, acknowledged {acknowledged}" if acknowledged else str(total)


def _top(all_shares: Shares) -> tuple[ShareLine, ...]:
    """Return the shares with a target, on the highest level with more than one, largest first."""
    for depth in sorted({share.depth for share in all_shares.shares}):
        lines = [share for share in all_shares.shares if share.depth == depth and share.target_percent]
        if len(lines) > 1:
            return tuple(sorted(lines, key=lambda share: -(share.target_percent or 0.0))[:MOST_SHARES])
    return all_shares.shares[:MOST_SHARES]


def _activity_picture(recent: Activity) -> Markup:
    change_marks = [Mark(change.at, change.kind, f"{change.about}: {change.detail}") for change in recent.changes]
    steps = [(step.at, step.outcomes) for step in recent.steps]
    return outcomes_over_time(recent.since, recent.now, recent.step_s, steps, change_marks)


@router.get("/service")
@allow(READ)
def service(request: Request, api: State) -> Response:
    """The page ``/service``: agents with their cycles, processes, and sources with their ages."""
    installation = installation_of(api)
    with query_context(api, api.now()) as query:
        running, times, wrong = service_answer(query, installation), cycle_times(query), alarms(query)
    histograms = {name: histogram(f"Cycles of {name}", values, "s") for name, values in times.seconds.items()}
    answers = {"service": running, "times": times, "alarms": wrong}
    return show(
        request,
        "service/service",
        answers,
        title="Service",
        sentence=service_sentence(running),
        alarm_lines=alarm_kinds(wrong.alarms),
        picture=histograms.__getitem__,
    )


def service_sentence(running: ServiceAnswer) -> str:
    """Describe how many agents and sources are well, and which are not. Pure."""
    ill = [agent.agent for agent in running.agents if is_ill(agent)]
    stale = [source.source for source in running.sources if source.state != "ok"]
    on = sum(1 for agent in running.agents if agent.enabled)
    agents = f"{on - len(ill)} of {on} agents are well{_first_names(ill)}" if on else "No agent is on"
    total = len(running.sources)
    sources = (
        f"{total - len(stale)} of {total} sources are fresh{_first_names(stale)}"
        if total
        else "there is no snapshot yet"
    )
    return f"{agents}; {sources}."


def _first_names(names: Sequence[str]) -> str:
    """Return the first few of the names."""
    return f", not {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}" if names else ""

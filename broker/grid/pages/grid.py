"""Pages of nuclei, links and shares."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Path, Query, Response
from markupsafe import Markup
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.state import At, Name, State, query_context
from broker.grid.answers.links import every_link, page_of_links
from broker.grid.answers.models import LinkFilters, Links, NucleusAnswer, Shares
from broker.grid.answers.queues import nuclei, nucleus_answer
from broker.grid.answers.shares import shares
from broker.grid.pages.cells import Cell, cells
from broker.grid.routes.grid import LinkPlace
from broker.web.formats import in_path
from broker.web.pictures.bars import Bar, bars
from broker.web.rendering import page_router, show
from broker.web.time_range import time_shown

router = page_router(tag="grid")
MOST_SOURCES, MOST_LISTED = 30, 200
#: A cell with its link and title takes some 200 bytes, and a page stays below 150 kB.
MOST_CELLS = 360


@router.get("/nuclei")
@allow(READ)
def list_nuclei(request: Request, api: State, at: At = None) -> Response:
    """All nuclei and satellites, with their space and what they collected."""
    with query_context(api, at) as query:
        nucleus_list = nuclei(query)
    return show(
        request,
        "grid/nuclei",
        nucleus_list,
        title="Nuclei",
        items="nuclei",
        time=time_shown(request, at, nucleus_list.now),
    )


@router.get("/nuclei/{nucleus}")
@allow(READ)
def one_nucleus(request: Request, api: State, nucleus: Annotated[str, Path(min_length=1, max_length=200)]) -> Response:
    """A nucleus: its space, what was drawn there, and what rejected it."""
    with query_context(api) as query:
        answer = nucleus_answer(query, nucleus)
    title = f"Nucleus {answer.line.nucleus}"
    return show(request, "grid/nucleus", answer, title=title, picture=lambda: draws(answer))


def draws(answer: NucleusAnswer) -> Markup | None:
    """The probability with which the nucleus was drawn, for each of its last tasks."""
    lines = [
        Bar(
            str(task.jeditaskid),
            100 * task.probability,
            f"{100 * task.probability:.1f} %{', drawn' if task.drawn else ''}",
            f"/tasks/{task.jeditaskid}",
            class_="bar-good" if task.drawn else "bar-left",
        )
        for task in answer.tasks
    ]
    return bars("Probability that the nucleus is drawn", lines) if lines else None


@router.get("/links")
@allow(READ)
def list_links(
    request: Request,
    api: State,
    source: Name | None = None,
    nucleus: Name | None = None,
    full: bool = False,
    after: LinkPlace = None,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = MOST_LISTED,
    at: At = None,
) -> Response:
    """Links: queued files against the cap, as a matrix of all links and a page of the list."""
    with query_context(api, at) as query:
        every = every_link(query, LinkFilters(source=source or None, nucleus=nucleus or None, full=full))
    shown = page_of_links(every, after, limit)
    filters = {"source": source or "", "nucleus": nucleus or "", "full": full}
    parameters = {
        name: value for name, value in (("source", source), ("nucleus", nucleus), ("full", full or "")) if value
    }
    further = None if shown.next_after is None else urlencode({**parameters, "limit": limit, "after": shown.next_after})
    return show(
        request,
        "grid/links",
        shown,
        title="Links",
        items="links",
        given=filters,
        further=further,
        picture=lambda: matrix(every),
        time=time_shown(request, at, every.now),
    )


def matrix(links: Links) -> Markup:
    """Queued files, of sites with storage against nuclei. On a large grid only the links that are listed first."""
    busy = [row for row in links.links if row.queued_files]
    names = sorted(list(dict.fromkeys(row.nucleus for row in busy))[:MOST_CELLS])
    every = list(dict.fromkeys(row.source for row in busy))
    sources = every[: min(MOST_SOURCES, MOST_CELLS // max(len(names), 1))]
    boxes = {
        (row.source, row.nucleus): Cell(
            row.queued_files or 0.0,
            f"{row.source} to {row.nucleus}: {row.queued_files or 0:,.0f} files queue, cap {row.cap_files or 0:,.0f}",
            f"/links?source={in_path(row.source)}&nucleus={in_path(row.nucleus)}",
            bool(row.full),
        )
        for row in links.links
        if row.source in sources and row.nucleus in names and row.queued_files is not None
    }
    rows = [(name, f"/links?source={in_path(name)}") for name in sorted(sources)]
    columns = [(name, f"/nuclei/{in_path(name)}") for name in names]
    return cells(
        f"Files that queue from {len(rows)} of {len(every)} sites to {len(columns)} nuclei", rows, columns, boxes
    )


@router.get("/shares")
@allow(READ)
def list_shares(request: Request, api: State, at: At = None) -> Response:
    """Global shares: their targets and their load."""
    with query_context(api, at) as query:
        tree = shares(query)
    drawn = shares_picture(tree)
    time = time_shown(request, at, tree.now)
    return show(request, "grid/shares", tree, title="Shares", items="shares", picture=lambda: drawn, time=time)


#: A share within this part of its target is near it.
NEAR = 0.15


def share_class(running: float | None, target: float | None) -> str:
    """The CSS class of a share: near its target, below it, or above it."""
    if running is None or not target or abs(running - target) <= NEAR * target:
        return "bar-good"
    return "bar-wait" if running < target else "bar-limit"


def shares_picture(tree: Shares) -> Markup:
    """The running part of each share, with its target as a mark."""
    lines = [
        Bar(
            "  " * line.depth + line.gshare,
            line.running_percent or 0.0,
            f"{line.running_percent or 0.0:.1f} %",
            f"/tasks?gshare={in_path(line.gshare)}",
            line.target_percent,
            share_class(line.running_percent, line.target_percent),
            f", target {line.target_percent or 0.0:.1f} %",
        )
        for line in tree.shares
    ]
    return bars("Shares against their targets", lines)

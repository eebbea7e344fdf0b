"""Lists that lead to pages of single things: users, runs, documents, fields that operators hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Response
from markupsafe import Markup, escape
from pydantic import BaseModel
from starlette.requests import Request

from broker.access.policies import READ, READ_NAMES
from broker.api.guarded_route import allow
from broker.api.presenting import to_path
from broker.api.state import LARGEST_ID, State, asking, moment
from broker.grid.answers.queue import pins_answer
from broker.history.statements.task_facts import UserTasks, read_tasks_by_user
from broker.store.snapshots import feed_documents
from broker.web.formats import ago, moment as instant, queue_link, shown, state, text
from broker.web.rendering import for_reader, page_router, show
from broker.whatif.statements import runs

router = page_router(tag="lists")
RUNS_OF_A_PAGE = 100


class Users(BaseModel):
    """Those who have tasks, with most that are open first."""

    now: datetime
    users: list[UserTasks]


class Runs(BaseModel):
    """What was decided again or simulated, the newest first."""

    now: datetime
    runs: list[runs.RunLine]


class Documents(BaseModel):
    """The documents that facts of the grid come from."""

    now: datetime
    documents: list[feed_documents.FedDocument]


def _page(
    request: Request,
    found: BaseModel,
    field: str,
    title: str,
    sentence: str,
    columns: Sequence[str],
    cells: Callable[[Any], Sequence[object]],
    none: str,
    further: str | None = None,
) -> Response:
    """A page of one list; ``cells`` are made of what the reader may see."""
    lines = getattr(for_reader(request, found), field)
    rows = [[cell if isinstance(cell, Markup) else escape(text(cell)) for cell in cells(one)] for one in lines]
    return show(
        request,
        "list",
        found,
        title=title,
        items=field,
        sentence=sentence,
        columns=list(columns),
        nothing=none,
        further=further,
        lines=lambda: rows,
    )


def _link(address: str, name: object) -> Markup:
    return Markup('<a href="{}">{}</a>').format(address, text(name))


@router.get("/users")
@allow(READ_NAMES)
def list_users(request: Request, api: State) -> Response:
    """Those who have tasks."""
    with asking(api) as asked:
        found = Users(now=asked.now, users=read_tasks_by_user(asked.connection, asked.catalogue))
    waits = sum(one.pending for one in found.users)
    return _page(
        request,
        found,
        "users",
        "Users",
        f"{len(found.users):,} users have tasks; {waits:,} of those are pending.",
        ("User", "Open tasks|n", "Running|n", "Pending|n", "All tasks|nh"),
        lambda one: (
            _link(f"/users/{to_path(one.user)}", one.user),
            *map(shown, (one.open, one.running, one.pending, one.tasks)),
        ),
        "Nobody has tasks.",
    )


@router.get("/runs")
@allow(READ)
def list_runs(
    request: Request, api: State, before: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None
) -> Response:
    """What was tried: previews, sweeps, replays, simulations."""
    now = moment(api)
    with api.database.begin() as connection:
        found = runs.newest(connection, RUNS_OF_A_PAGE + 1, before)
    lines = [runs.RunLine(**{name: getattr(one, name) for name in runs.RunLine.model_fields}) for one in found]
    more = f"/runs?before={lines[RUNS_OF_A_PAGE - 1].id}" if len(lines) > RUNS_OF_A_PAGE else None
    return _page(
        request,
        Runs(now=now, runs=lines[:RUNS_OF_A_PAGE]),
        "runs",
        "Runs",
        "Decisions that were made again with other values, replays and simulations; none of them changes anything.",
        ("Run|n", "Kind", "State", "Done|nh", "By|h", "Asked for|n"),
        lambda one: (
            _link(f"/runs/{one.id}", one.id),
            one.kind.replace("_", " "),
            state(one.state),
            shown(one.done),
            one.subject,
            ago(one.created_at, now),
        ),
        "Nothing was tried yet. The page of a key has a preview.",
        more,
    )


@router.get("/sources")
@allow(READ)
def list_sources(request: Request, api: State) -> Response:
    """The documents that facts of the grid come from, and their ages."""
    now = api.now()
    with api.database.begin() as connection:
        found = Documents(now=now, documents=list(feed_documents.all_documents(connection)))
    return _page(
        request,
        found,
        "documents",
        "Sources",
        f"{len(found.documents):,} documents are on record; the ages of the tables are on the page of the service.",
        ("Document", "Feed|h", "From|h", "Records|n", "Seen|n", "Changed|n"),
        lambda one: (
            one.document,
            one.feed,
            one.source,
            shown(one.records),
            ago(one.checked_at, now),
            ago(one.changed_at, now),
        ),
        "No document was fetched or sent yet; facts come from the tables of PanDA.",
    )


@router.get("/pins")
@allow(READ)
def list_pins(request: Request, api: State) -> Response:
    """The fields of queues that operators hold now."""
    with asking(api) as asked:
        found = pins_answer(asked)
    return _page(
        request,
        found,
        "pins",
        "Pins",
        f"{len(found.pins):,} fields of queues are held at a value, whatever CRIC says.",
        ("Queue", "Field", "Value", "Until|h", "By|h", "Reason|h"),
        lambda one: (queue_link(one.queue), one.field, one.value, instant(one.until), one.editor, one.reason),
        "None is held. An operator holds one with broker queue set.",
    )

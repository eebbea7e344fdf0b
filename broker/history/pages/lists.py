"""Lists that link to pages of single items: users, runs, documents, fields pinned by operators."""

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
from broker.api.state import LARGEST_ID, State, moment, query_context
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
    content: BaseModel,
    field: str,
    title: str,
    sentence: str,
    columns: Sequence[str],
    cells: Callable[[Any], Sequence[object]],
    none: str,
    further: str | None = None,
) -> Response:
    """Return a page of one list; ``cells`` are built from what the reader may see."""
    lines = getattr(for_reader(request, content), field)
    rows = [[cell if isinstance(cell, Markup) else escape(text(cell)) for cell in cells(line)] for line in lines]
    return show(
        request,
        "list",
        content,
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
    with query_context(api) as query:
        users = Users(now=query.now, users=read_tasks_by_user(query.connection, query.catalogue))
    waits = sum(user.pending for user in users.users)
    return _page(
        request,
        users,
        "users",
        "Users",
        f"{len(users.users):,} users have tasks; {waits:,} of those are pending.",
        ("User", "Open tasks|n", "Running|n", "Pending|n", "All tasks|nh"),
        lambda user: (
            _link(f"/users/{to_path(user.user)}", user.user),
            *map(shown, (user.open, user.running, user.pending, user.tasks)),
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
        newest_runs = runs.newest(connection, RUNS_OF_A_PAGE + 1, before)
    lines = [runs.RunLine(**{name: getattr(run, name) for name in runs.RunLine.model_fields}) for run in newest_runs]
    more = f"/runs?before={lines[RUNS_OF_A_PAGE - 1].id}" if len(lines) > RUNS_OF_A_PAGE else None
    return _page(
        request,
        Runs(now=now, runs=lines[:RUNS_OF_A_PAGE]),
        "runs",
        "Runs",
        "Decisions that were made again with other values, replays and simulations; none of them changes anything.",
        ("Run|n", "Kind", "State", "Done|nh", "By|h", "Asked for|n"),
        lambda run: (
            _link(f"/runs/{run.id}", run.id),
            run.kind.replace("_", " "),
            state(run.state),
            shown(run.done),
            run.subject,
            ago(run.created_at, now),
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
        documents = Documents(now=now, documents=list(feed_documents.all_documents(connection)))
    return _page(
        request,
        documents,
        "documents",
        "Sources",
        f"{len(documents.documents):,} documents are on record; the ages of the tables are on the page of the service.",
        ("Document", "Feed|h", "From|h", "Records|n", "Seen|n", "Changed|n"),
        lambda document: (
            document.document,
            document.feed,
            document.source,
            shown(document.records),
            ago(document.checked_at, now),
            ago(document.changed_at, now),
        ),
        "No document was fetched or sent yet; facts come from the tables of PanDA.",
    )


@router.get("/pins")
@allow(READ)
def list_pins(request: Request, api: State) -> Response:
    """The fields of queues that operators hold now."""
    with query_context(api) as query:
        pins = pins_answer(query)
    return _page(
        request,
        pins,
        "pins",
        "Pins",
        f"{len(pins.pins):,} fields of queues are held at a value, whatever CRIC says.",
        ("Queue", "Field", "Value", "Until|h", "By|h", "Reason|h"),
        lambda pin: (queue_link(pin.queue), pin.field, pin.value, instant(pin.until), pin.editor, pin.reason),
        "None is held. An operator holds one with broker queue set.",
    )

"""``broker tasks``: the tasks, waiting ones first, with the reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.context import duration, query_context
from broker.cli.elsewhere import LARGEST_PAGE, Arguments, Document, RemoteAnswer
from broker.cli.output import Column, print_json, print_table, say
from broker.cli.rendering.cells import TimeWithAge
from broker.decisions.answers.phrases import throttle
from broker.history.answers.list_models import MOST_LINES, TaskFilters, TaskLine, TaskList
from broker.history.answers.tasks import known_task_filters, task_list

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

COLUMNS = (
    Column("task"),
    Column("status"),
    Column("outcome"),
    Column("why"),
    Column("waiting since", drop_order=2),
    Column("chunks", drop_order=5),
    Column("waiting", drop_order=6),
    Column("jobs", drop_order=4),
    Column("user", drop_order=3),
    Column("share", drop_order=7),
    Column("priority", drop_order=8),
    Column("next try", drop_order=9),
    Column("name", drop_order=10),
    Column("queues", only_wide=True),
)


def tasks(
    context: typer.Context,
    user: Annotated[str | None, typer.Option("--user", help="Only tasks of this user.")] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", help="Only tasks in this status, or with this outcome (pending, throttled)."),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Only tasks that wait for this reason.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Only tasks with jobs placed at this queue.")] = None,
    nucleus: Annotated[str | None, typer.Option("--nucleus", help="Only tasks of this nucleus.")] = None,
    gshare: Annotated[str | None, typer.Option("--gshare", help="Only tasks of this global share.")] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="SPAN", help="Only tasks considered within this time: 30m, 24h, 7d."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=MOST_LINES, help="Maximum number of tasks.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="One object per task.")] = False,
) -> None:
    """List tasks: what the brokerage last decided, why they wait and since when; longest wait first."""
    span = None if since is None else duration(since, "--since")
    with query_context(context) as query:
        filters = TaskFilters(
            user=user,
            status=status,
            reason=reason,
            queue=queue,
            nucleus=nucleus,
            gshare=gshare,
            since=None if span is None else query.now - span,
            limit=limit,
        )
        matches = task_list(query, known_task_filters(query, filters))
    if as_json:
        for line in matches.tasks:
            print_json(line)
        return
    show_task_list(matches)


def show_task_list(matches: TaskList) -> None:
    """Print the selected tasks."""
    show_tasks(matches, matches.tasks, f"Tasks: {matches.total}")


def show_tasks(matches: TaskList, lines: tuple[TaskLine, ...], title: str) -> None:
    """Print tasks as a table."""
    print_table(COLUMNS, [_row(line, matches) for line in lines], title=title)
    if matches.total > len(lines):
        say(f"{matches.total - len(lines)} more; --limit shows more of them")


def why(line: TaskLine) -> str:
    """Return why a task waits, in a few words."""
    return throttle(line.throttle) if line.throttle is not None else line.main_code or ""


def _row(line: TaskLine, answer: TaskList) -> tuple[object, ...]:
    task = line.task
    return (
        task.jeditaskid,
        task.status or "",
        line.outcome or "not brokered yet",
        why(line),
        TimeWithAge(task.waiting_since, answer.now),
        line.chunks,
        line.chunks_waiting,
        line.jobs,
        task.username or "",
        task.gshare or "",
        task.currentpriority,
        "each cycle" if task.redecide == "each_cycle" else task.next_try_at,
        task.taskname or "",
        line.queues,
    )


def _ask(client: BrokerClient, given: Arguments) -> Document:
    since = None if given["since"] is None else datetime.now(UTC) - duration(given["since"], "--since")
    filters = {name: given[name] for name in ("user", "status", "reason", "queue", "nucleus", "gshare")}
    return client.tasks(**filters, since=since, limit=min(given["limit"], LARGEST_PAGE))


ELSEWHERE = RemoteAnswer(_ask, TaskList, show_task_list, "tasks")

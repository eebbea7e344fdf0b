"""``broker agents``: what runs, when, its last outcome, the lease holder, and what is paused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated

import typer

from broker.cli.context import open_store, settings_of
from broker.cli.elsewhere import RemoteAnswer
from broker.cli.output import Column, print_json, print_table
from broker.cli.rendering.cells import TimeWithAge, utc
from broker.domain.parts import MARK
from broker.service.answers.models import AgentLine, ServiceAnswer
from broker.service.answers.service import agent_lines
from broker.service.commands.health import check
from broker.service.statements.agent_cycles import database_clock
from broker.store.connection.embedded import EmbeddedServer
from broker.store.query_context import QueryContext
from broker.store.schema import migrate
from broker.store.service.agent_pauses import UNTIL_RESUMED

COLUMNS = (
    Column("agent"),
    Column("enabled", drop_order=3),
    Column("period_s", drop_order=5),
    Column("last outcome"),
    Column("started"),
    Column("next run", drop_order=2),
    Column("paused"),
    Column("error", drop_order=1),
    Column("holder", drop_order=4),
    Column("mean s", drop_order=6),
    Column("largest s", drop_order=7),
    Column("counts", only_wide=True),
    Column("expires_in_s", only_wide=True),
)


def agents(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per agent on stdout.")] = False,
    health: Annotated[
        bool,
        typer.Option("--health", help="Only report, by the exit status, whether this host's service is healthy."),
    ] = False,
) -> None:
    """List what runs, when, the last outcome, who holds the lease, what is paused; times by the database's clock."""
    if health:
        settings = settings_of(context)
        raise typer.Exit(check(settings.database_url or EmbeddedServer(settings.home).url()))
    with open_store(context) as database:
        installation = migrate.mode_of(database)
        with database.begin() as connection:
            now = database_clock(connection)
            query = QueryContext(connection, database.names, now, settings_of(context).config)
            lines = agent_lines(query, installation)
    if json:
        for line in lines:
            print_json(line)
        return
    show_agents(lines, now)


def show_agents(lines: Iterable[AgentLine], now: datetime) -> None:
    """Print agents as a table, each with the parts of its divided work."""
    print_table(COLUMNS, [row for line in lines for row in (_row(line, now), *_rows_of_parts(line, now))])


def _row(line: AgentLine, now: datetime) -> tuple[object, ...]:
    return (
        line.agent,
        line.enabled,
        line.period_s,
        line.last_outcome or "",
        TimeWithAge(line.started_at, now),
        line.next_run_at,
        _paused(line),
        _last_line(line.error),
        line.holder or "",
        line.mean_s,
        line.largest_s,
        {name: value for name, value in line.counts.items() if name != "notes"},
        line.expires_in_s,
    )


def _rows_of_parts(line: AgentLine, now: datetime) -> Iterator[tuple[object, ...]]:
    """Yield the parts of an agent whose work is divided, each under the name of its lease."""
    for part in line.parts:
        began, error = TimeWithAge(part.started_at, now), _last_line(part.error)
        outcome, name = part.last_outcome or "", f"{line.agent}{MARK}{part.part}"
        columns = (name, line.enabled, None, outcome, began, None, "", error, part.holder or "")
        yield (*columns, None, None, None, part.expires_in_s)


def _last_line(error: str | None) -> str:
    return ((error or "").strip().splitlines() or [""])[-1][:200]


def _paused(line: AgentLine) -> str:
    pause = line.pause
    if pause is None:
        return ""
    end = "until resumed" if pause.until == UNTIL_RESUMED else f"until {utc(pause.until)}"
    return f"{end} by {pause.editor}: {pause.reason}"


def _show(answer: ServiceAnswer) -> None:
    show_agents(answer.agents, answer.now)


ELSEWHERE = RemoteAnswer(lambda client, given: client.agents(), ServiceAnswer, _show, "agents")

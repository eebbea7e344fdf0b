"""``broker pause`` and ``broker resume``: stop agents from starting cycles for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agents.service import registry
from broker.cli.context import duration, end_of, open_store
from broker.cli.elsewhere import Arguments, Documents, RemoteDocuments
from broker.cli.output import print_json
from broker.cli.rendering.cells import remark, utc
from broker.errors import REFUSED, WRONG_USAGE, BrokerError
from broker.service.answers import pausing
from broker.service.statements.agent_cycles import database_clock
from broker.store.query_context import NothingFound
from broker.store.service import agent_pauses
from broker.tuning.answers.values import Editor, editor_name

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

Agent = Annotated[str, typer.Argument(metavar="AGENT|all", help="An agent, or all of them.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="One object on one line.")]
LONGEST_REASON = 500


class WrongPause(BrokerError):
    """The argument is not a valid pause."""

    exit_status = WRONG_USAGE


def pause(
    context: typer.Context,
    agent: Agent,
    ends: Annotated[
        str,
        typer.Option(
            "--until", metavar="TIME|SPAN", help="When the pause ends: a time (UTC), 30m, 8h.", show_default=False
        ),
    ],
    reason: Annotated[str, typer.Option("--reason", help="Reason, for the history.", show_default=False)],
    editor: Editor = None,
    as_json: Json = False,
) -> None:
    """Pause an agent, or all: no cycle starts until some time. A cycle under way ends; leases are kept."""
    _check(agent)
    if not 0 < len(reason.strip()) <= LONGEST_REASON:
        raise WrongPause("no reason, or too long a one", "--reason", f"give 1 to {LONGEST_REASON} characters")
    whose = editor_name(editor)
    with open_store(context) as database, database.begin() as connection:
        end = end_of(ends, database_clock(connection))
        paused = pausing.pause(connection, agent, until=end, reason=reason, editor=whose)
    if as_json:
        print_json(paused)
        return
    remark(f"{agent}: paused until {utc(end)}; broker resume {agent} ends it")


def resume(context: typer.Context, agent: Agent, editor: Editor = None, as_json: Json = False) -> None:
    """End a pause: the agent, or all, start cycles again."""
    _check(agent)
    whose = editor_name(editor)
    with open_store(context) as database, database.begin() as connection:
        resumed = pausing.resume(connection, agent, editor=whose)
        other_pauses = agent_pauses.held_pauses(connection, agent)
    if as_json:
        print_json(resumed)
    else:
        remark(f"{agent}: resumed" if resumed.resumed else f"{agent}: was not paused by itself")
        for held in other_pauses:
            remark(f"still paused: {held.agent}, until {utc(held.until)} by {held.editor}: {held.reason}")
    if not resumed.resumed:
        raise typer.Exit(REFUSED)


def _check(agent: str) -> None:
    if agent != agent_pauses.ALL and agent not in registry.NAMES:
        raise NothingFound("agent", agent, "broker agents", (*registry.NAMES, agent_pauses.ALL))


def _pause(client: BrokerClient, given: Arguments) -> Documents:
    for_s = duration(given["ends"], "--until").total_seconds()
    return [client.pause(given["agent"], reason=given["reason"], for_s=for_s)]


PAUSE_ELSEWHERE = RemoteDocuments(_pause)
RESUME_ELSEWHERE = RemoteDocuments(lambda client, given: [client.resume(given["agent"])])

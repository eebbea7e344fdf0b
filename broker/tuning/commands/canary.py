"""``broker config canary``: try values on a share of the tasks for some time, and see how they fare beside the rest."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from broker.brokerages.registry import offered
from broker.cli.context import at_option, duration, installed_catalogue, moment_of, open_store
from broker.cli.output import escaped, print_json, print_table
from broker.domain.queues import TIGHTENING_KEYS
from broker.errors import WRONG_USAGE, BrokerError
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import Canary, Proposal, check_canary, proposed, read_proposals
from broker.store.connection.database import Database
from broker.tuning.answers.canaries import canary_answer
from broker.tuning.answers.moved_jobs import MOST as MOST_MOVED, LimitedChange
from broker.tuning.answers.values import Editor, editor_name
from broker.tuning.statements import canaries
from broker.tuning.statements.canaries import OutcomeOfGroup
from broker.tuning.statements.gdpconfig_rows import TuningStore

NOT_SPLIT = (*TIGHTENING_KEYS, "TW_DONE_JOB_STAT")
"""Keys that are read once for all tasks of a cycle."""
MOST = 10


class WrongCanaryUsage(BrokerError):
    """Options that do not go together."""

    exit_status = WRONG_USAGE


def canary(
    context: typer.Context,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="What to try; without it, list what was tried.")
    ] = None,
    share: Annotated[float | None, typer.Option("--share", help="Of the tasks, between 0 and 1.")] = None,
    span: Annotated[str | None, typer.Option("--for", metavar="6h", help="How long; it then ends by itself.")] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the one that runs.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the history.")] = "canary",
    editor: Editor = None,
    vo: Annotated[str | None, typer.Option("--vo", help="VO of the tasks that the values are for [yours].")] = None,
    at: Annotated[str | None, at_option("When it starts or stops")] = None,
    may_move: Annotated[
        int | None,
        typer.Option("--may-move", min=0, max=MOST_MOVED, help="Refuse it if a preview moves more of their jobs."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a canary.")] = False,
) -> None:
    """Try values on a share of the tasks; without values, list what was tried and what came of it."""
    is_whole = bool(values) == (share is not None) == (span is not None)
    if not is_whole or (stop and values) or (may_move is not None and not values):
        remedy = "write KEY=VALUE --share 0.1 --for 6h, or --stop, or nothing to see what was tried"
        raise WrongCanaryUsage("these options do not go together", "broker config canary", remedy)
    catalogue = installed_catalogue(context) if values else shipped_catalogue()
    proposals = read_proposals(catalogue, values or [], vo or catalogue.vo)
    if share is not None:
        check_canary(catalogue, proposals, share, NOT_SPLIT, tuple(offered()))
    length = None if span is None else duration(span, "--for")
    if share is not None and may_move is not None:
        from broker.tuning.commands.preview import reason_after_look

        wanted = LimitedChange(proposals, may_move, editor_name(editor), reason, share)
        reason = reason_after_look(context, wanted, yes=True, json=json)
    with open_store(context) as database:
        now = moment_of(at, database)
        if length is not None and share is not None:
            found = [_started(database, proposals, share, (now, now + length), editor_name(editor), reason)]
        else:
            with database.begin() as connection:
                found = [canaries.stop(connection, now)] if stop else canaries.newest(connection, MOST)
                if stop:
                    found = [dataclasses.replace(found[0], stopped_at=now)]
        with database.begin() as connection:
            for one in found:
                _show(one, canaries.outcomes(connection, one, tuple(offered())), now, json)
    if not found and not json:
        typer.echo("no values have been tried")


def _started(
    database: Database,
    proposals: Sequence[Proposal],
    share: float,
    span: tuple[datetime, datetime],
    editor: str,
    reason: str,
) -> Canary:
    """Start it on the values in force, those that other programs wrote included."""
    store = TuningStore(database.names)
    with database.begin() as connection:
        base = store.sync_outside_changes(connection)
    proposed(base, proposals)
    with database.begin() as connection:
        return canaries.start(connection, proposals, share, span, editor=editor, reason=reason)


def _show(one: Canary, outcomes: list[OutcomeOfGroup], now: datetime, json: bool) -> None:
    if json:
        print_json(canary_answer(one, outcomes, now))
        return
    state = "runs" if one.runs_at(now) else "over"
    output = ", ".join(map(str, one.proposals))
    typer.echo(
        escaped(
            f"canary {one.id}: {output} on {one.share:.1%} of the tasks, {one.started_at:%Y-%m-%d %H:%M} to "
            f"{one.over_at:%Y-%m-%d %H:%M} UTC ({state}), by {one.editor}: {one.reason}"
        )
    )
    if outcomes:
        counts = ("decisions", "brokered", "pending", "throttled", "candidates", "jobs")
        print_table(("brokerage", "group", "tasks", *counts), [_row(outcome) for outcome in outcomes])


def _row(one: OutcomeOfGroup) -> tuple[object, ...]:
    shares = (f"{count / max(1, one.decisions):.1%}" for count in (one.brokered, one.pending, one.throttled))
    return (one.brokerage, one.group, one.tasks, one.decisions, *shares, one.candidates, one.jobs)

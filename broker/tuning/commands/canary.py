"""``broker config canary``: try values on a share of the tasks for some time, and see how they fare beside the rest.

The preview of a change: what-if on the newest cycles, and a question where it goes beyond limits.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.service.configuration import ConfigurationError, config_file
from broker.brokerages.registry import offered
from broker.cli.context import at_option, duration, installed_catalogue, moment_of, open_store, settings_of
from broker.cli.output import escaped, print_json, print_table, remark
from broker.decisions.answers.rules_in_force import rule_set
from broker.domain.queues import TIGHTENING_KEYS
from broker.errors import WRONG_USAGE, BrokerError, Refused
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.gdpconfig.proposals import Canary, Proposal, check_canary, proposed, read_proposals
from broker.store.connection.database import Database
from broker.tuning.answers.canaries import MOST_MOVED, Counted, LimitedChange, canary_answer, judged, reason_within
from broker.tuning.answers.values import Editor, editor_name
from broker.tuning.statements import canaries
from broker.tuning.statements.canaries import OutcomeOfGroup
from broker.tuning.statements.gdpconfig_rows import TuningStore
from broker.whatif.answers.stored_cases import NothingStored, Selection, stored_cases
from broker.whatif.commands.what_if import affected, cores, progress, report, report_skipped_tasks
from broker.whatif.commands.what_if_report import show
from broker.whatif.model.cases import Change
from broker.whatif.model.comparison import Difference, total_documents
from broker.whatif.model.executor import Comparing, answer
from broker.wrong_values import what_is_wrong
from broker.yaml_text import read_yaml

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
        from broker.tuning.commands.canary import reason_after_look

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


class PreviewLimits(BaseModel):
    """``config/preview.yaml``.

    Attributes:
        cycles: of each brokerage, the newest.
        changed_outcomes: share of decisions whose outcome may change without a question.
        tasks_losing_last_queue: tasks that may become unschedulable without a question.
        jobs_moved: share of jobs that may be placed differently without a question.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cycles: int = Field(default=3, ge=1, le=1000)
    decisions: int = Field(default=200, ge=1, le=100_000)
    changed_outcomes: float = Field(default=0.02, ge=0, le=1, allow_inf_nan=False)
    tasks_losing_last_queue: int = Field(default=0, ge=0)
    jobs_moved: float = Field(default=0.10, ge=0, le=1, allow_inf_nan=False)


class NotConfirmed(Refused):
    """The change goes beyond the limits and was not confirmed."""


@dataclass(frozen=True)
class Looked:
    """What a look at a change found.

    Attributes:
        beyond: the limits of ``config/preview.yaml`` that it passes, one sentence each, the worst first.
        counted: the jobs that move; None where there was no cycle to look at.
    """

    beyond: list[str]
    counted: Counted | None


def look(context: typer.Context, proposals: Sequence[Proposal], *, json: bool) -> Looked:
    """Show what values would change in the newest cycles.

    Raises:
        NothingStored: there is no cycle to look at.
        ConfigurationError: the file with the limits cannot be used.
    """
    limits = read_limits(config_file("preview.yaml", settings_of(context).config))
    rules = rule_set(settings_of(context).config)
    with open_store(context) as database:
        change = Change(tuple(proposals), rules)
        cases = stored_cases(
            database,
            Selection(newest=limits.cycles, decisions=limits.decisions, brokerages=affected(rules, change)),
        )
        with progress(len(cases)) as emit:
            answers = answer(cases, Comparing(rules, (change,)), cores(), emit)
    report(answers)
    report_skipped_tasks(proposals)
    found = answers.differences[0]
    if json:
        for document in total_documents(found):
            print_json({**document, "kind": "preview", "baseline": answers.baseline.document()})
    else:
        show(found, ", ".join(map(str, proposals)), answers.baseline)
    missing = [f"{len(answers.dropped_rows) + len(answers.failed)} cycle(s) could not be decided again"]
    beyond = [*(missing if answers.dropped_rows or answers.failed else []), *beyond_limits(found, limits)]
    return Looked(beyond, _counted(found))


def look_only(context: typer.Context, proposals: Sequence[Proposal], most_moved: int | None, *, json: bool) -> None:
    """Show what values would change, and what would be said of it; nothing is changed.

    Args:
        context: of the command.
        proposals: keys and values.
        most_moved: jobs that may move; None for no limit.
        json: whether it is shown as JSON.

    Raises:
        NothingStored: there is no cycle to look at.
        ConfigurationError: the file with the limits cannot be used.
    """
    looked = look(context, proposals, json=json)
    said = None if most_moved is None else judged(looked.counted, most_moved)
    for sentence in (*looked.beyond, *([said.what] if isinstance(said, Refused) else [])):
        remark(f"warning: {sentence}")
    remark("nothing was changed")


def reason_after_look(context: typer.Context, change: LimitedChange, *, yes: bool, json: bool) -> str:
    """Show what a change does; its reason, with the jobs that move where it has a limit for these.

    Args:
        context: of the command.
        change: what is wanted.
        yes: the change is meant whatever limit of ``config/preview.yaml`` it passes.
        json: whether it is shown as JSON.

    Raises:
        NotConfirmed: it goes beyond a limit and was not confirmed.
        TooManyJobsMove: more jobs move than its own limit lets.
        NotPreviewed: it has such a limit, and there is no cycle to look at.
        ConfigurationError: the file with the limits cannot be used.
    """
    try:
        looked = look(context, change.proposals, json=json)
    except NothingStored as error:
        looked = Looked([str(error), "what would change is not known"], None)
    with open_store(context) as database:
        reason = reason_within(database, change, moment_of(None, database), looked.counted)
    confirm(looked.beyond, yes)
    return reason


def _counted(found: Difference) -> Counted:
    jobs = sum(totals.jobs_before.total() for totals in found.totals.values())
    return Counted(found.total("jobs_moved"), jobs)


def beyond_limits(found: Difference, limits: PreviewLimits) -> list[str]:
    """The limits that a difference passes, one sentence each; the worst first."""
    sentences = []
    losing = found.tasks_losing_last()
    if len(losing) > limits.tasks_losing_last_queue:
        named = ", ".join(map(str, losing[:5])) + (" ..." if len(losing) > 5 else "")
        allowed = limits.tasks_losing_last_queue
        sentences.append(f"{len(losing)} task(s) become unschedulable ({named}); the limit is {allowed}")
    changed = sum(
        count for totals in found.totals.values() for (was, is_), count in totals.outcomes.items() if was != is_
    )
    decisions = found.total("decisions")
    if changed > limits.changed_outcomes * decisions:
        share = f"{changed} of {decisions} outcomes change ({changed / max(1, decisions):.1%})"
        sentences.append(f"{share}; the limit is {limits.changed_outcomes:.1%}")
    counted = _counted(found)
    moved, jobs = counted.moved, counted.jobs
    if moved > limits.jobs_moved * jobs:
        share = f"{moved} of {jobs} jobs move ({moved / max(1, jobs):.1%})"
        sentences.append(f"{share}; the limit is {limits.jobs_moved:.1%}")
    return sentences


def read_limits(path: Path) -> PreviewLimits:
    """Read and check the file.

    Raises:
        ConfigurationError: it is missing, no YAML, has unknown names, or values out of range.
    """
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
        return PreviewLimits.model_validate({} if content is None else content)
    except ValidationError as error:
        raise ConfigurationError(what_is_wrong(error), str(path), "compare with the file that is shipped") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(str(error), str(path), "compare with the file that is shipped") from error


def confirm(sentences: Sequence[str], yes: bool) -> None:
    """Show what is beyond the limits, and go on only with a yes.

    Raises:
        NotConfirmed: it was not confirmed.
    """
    for sentence in sentences:
        remark(f"warning: {sentence}")
    if yes:
        return
    remedy = "nothing was changed; see config/preview.yaml for the limits"
    if not sys.stdin.isatty():
        raise NotConfirmed("the change is not confirmed, and there is nobody to ask", "", f"{remedy}, or give --yes")
    if not typer.confirm("Make the change?", err=True):
        raise NotConfirmed("the change is not confirmed", "", remedy)

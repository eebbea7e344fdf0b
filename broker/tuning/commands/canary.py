"""``broker config canary`` tries values on a share of the tasks; a preview precedes every change of values.

A canary is compared with the rest of the tasks. The preview is a what-if on the newest cycles, with a question where
the change exceeds the limits of ``config/preview.yaml``.
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
from broker.store.gdpconfig_rows import TuningStore
from broker.tuning.answers.canaries import (
    MOST_MOVED,
    LimitedChange,
    PreviewCounts,
    canary_answer,
    judged,
    reason_within,
)
from broker.tuning.answers.values import Editor, editor_name
from broker.tuning.statements import canaries
from broker.tuning.statements.canaries import OutcomeOfGroup
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
    """The options cannot be combined."""

    exit_status = WRONG_USAGE


def canary(
    context: typer.Context,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Value to try; without it, list what was tried.")
    ] = None,
    share: Annotated[float | None, typer.Option("--share", help="Share of the tasks, between 0 and 1.")] = None,
    span: Annotated[
        str | None, typer.Option("--for", metavar="6h", help="How long it runs before it ends by itself.")
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the running canary.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Reason, for the history.")] = "canary",
    editor: Editor = None,
    vo: Annotated[str | None, typer.Option("--vo", help="VO of the tasks that the values are for [yours].")] = None,
    at: Annotated[str | None, at_option("When it starts or stops")] = None,
    may_move: Annotated[
        int | None,
        typer.Option("--may-move", min=0, max=MOST_MOVED, help="Refuse it if a preview moves more of their jobs."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per canary.")] = False,
) -> None:
    """Try values on a share of the tasks; without values, list what was tried and the results."""
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

        change = LimitedChange(proposals, may_move, editor_name(editor), reason, share)
        reason = reason_after_look(context, change, yes=True, json=json)
    with open_store(context) as database:
        now = moment_of(at, database)
        if length is not None and share is not None:
            trials = [_start_canary(database, proposals, share, (now, now + length), editor_name(editor), reason)]
        else:
            with database.begin() as connection:
                trials = [canaries.stop(connection, now)] if stop else canaries.newest(connection, MOST)
                if stop:
                    trials = [dataclasses.replace(trials[0], stopped_at=now)]
        with database.begin() as connection:
            for trial in trials:
                _show(trial, canaries.outcomes(connection, trial, tuple(offered())), now, json)
    if not trials and not json:
        typer.echo("no values have been tried")


def _start_canary(
    database: Database,
    proposals: Sequence[Proposal],
    share: float,
    span: tuple[datetime, datetime],
    editor: str,
    reason: str,
) -> Canary:
    """Start a canary on the values in force, including those that other programs wrote."""
    store = TuningStore(database.names)
    with database.begin() as connection:
        base = store.sync_outside_changes(connection)
    proposed(base, proposals)
    with database.begin() as connection:
        return canaries.start(connection, proposals, share, span, editor=editor, reason=reason)


def _show(trial: Canary, outcomes: list[OutcomeOfGroup], now: datetime, json: bool) -> None:
    if json:
        print_json(canary_answer(trial, outcomes, now))
        return
    state = "runs" if trial.runs_at(now) else "over"
    output = ", ".join(map(str, trial.proposals))
    typer.echo(
        escaped(
            f"canary {trial.id}: {output} on {trial.share:.1%} of the tasks, {trial.started_at:%Y-%m-%d %H:%M} to "
            f"{trial.over_at:%Y-%m-%d %H:%M} UTC ({state}), by {trial.editor}: {trial.reason}"
        )
    )
    if outcomes:
        counts = ("decisions", "brokered", "pending", "throttled", "candidates", "jobs")
        print_table(("brokerage", "group", "tasks", *counts), [_cells(outcome) for outcome in outcomes])


def _cells(row: OutcomeOfGroup) -> tuple[object, ...]:
    shares = (f"{count / max(1, row.decisions):.1%}" for count in (row.brokered, row.pending, row.throttled))
    return (row.brokerage, row.group, row.tasks, row.decisions, *shares, row.candidates, row.jobs)


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
class PreviewResult:
    """The result of a preview.

    Attributes:
        beyond: the limits of ``config/preview.yaml`` that the change exceeds, one sentence each, the worst first.
        counted: the jobs that move; None if there was no cycle to preview.
    """

    beyond: list[str]
    counted: PreviewCounts | None


def look(context: typer.Context, proposals: Sequence[Proposal], *, json: bool) -> PreviewResult:
    """Show what values would change in the newest cycles.

    Raises:
        NothingStored: there is no cycle to preview.
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
    difference = answers.differences[0]
    if json:
        for document in total_documents(difference):
            print_json({**document, "kind": "preview", "baseline": answers.baseline.document()})
    else:
        show(difference, ", ".join(map(str, proposals)), answers.baseline)
    missing = [f"{len(answers.dropped_rows) + len(answers.failed)} cycle(s) could not be decided again"]
    beyond = [*(missing if answers.dropped_rows or answers.failed else []), *beyond_limits(difference, limits)]
    return PreviewResult(beyond, _count_jobs(difference))


def look_only(context: typer.Context, proposals: Sequence[Proposal], most_moved: int | None, *, json: bool) -> None:
    """Show what values would change, with all warnings, and change nothing.

    Args:
        context: context of the command.
        proposals: keys and values.
        most_moved: maximum number of jobs that may move; None for no limit.
        json: whether to show it as JSON.

    Raises:
        NothingStored: there is no cycle to preview.
        ConfigurationError: the file with the limits cannot be used.
    """
    preview = look(context, proposals, json=json)
    judgement = None if most_moved is None else judged(preview.counted, most_moved)
    for sentence in (*preview.beyond, *([judgement.what] if isinstance(judgement, Refused) else [])):
        remark(f"warning: {sentence}")
    remark("nothing was changed")


def reason_after_look(context: typer.Context, change: LimitedChange, *, yes: bool, json: bool) -> str:
    """Show what a change does; return its reason, with the jobs that move if the change limits these.

    Args:
        context: context of the command.
        change: the requested change.
        yes: the change is confirmed whatever limit of ``config/preview.yaml`` it exceeds.
        json: whether to show it as JSON.

    Raises:
        NotConfirmed: it exceeds a limit and was not confirmed.
        TooManyJobsMove: more jobs move than its own limit allows.
        NotPreviewed: it has such a limit, and there is no cycle to preview.
        ConfigurationError: the file with the limits cannot be used.
    """
    try:
        preview = look(context, change.proposals, json=json)
    except NothingStored as error:
        preview = PreviewResult([str(error), "what would change is not known"], None)
    with open_store(context) as database:
        reason = reason_within(database, change, moment_of(None, database), preview.counted)
    confirm(preview.beyond, yes)
    return reason


def _count_jobs(difference: Difference) -> PreviewCounts:
    jobs = sum(totals.jobs_before.total() for totals in difference.totals.values())
    return PreviewCounts(difference.total("jobs_moved"), jobs)


def beyond_limits(difference: Difference, limits: PreviewLimits) -> list[str]:
    """The limits that a difference exceeds, one sentence each; the worst first."""
    sentences = []
    losing = difference.tasks_losing_last()
    if len(losing) > limits.tasks_losing_last_queue:
        named = ", ".join(map(str, losing[:5])) + (" ..." if len(losing) > 5 else "")
        allowed = limits.tasks_losing_last_queue
        sentences.append(f"{len(losing)} task(s) become unschedulable ({named}); the limit is {allowed}")
    changed = sum(
        count for totals in difference.totals.values() for (was, is_), count in totals.outcomes.items() if was != is_
    )
    decisions = difference.total("decisions")
    if changed > limits.changed_outcomes * decisions:
        share = f"{changed} of {decisions} outcomes change ({changed / max(1, decisions):.1%})"
        sentences.append(f"{share}; the limit is {limits.changed_outcomes:.1%}")
    counted = _count_jobs(difference)
    moved, jobs = counted.moved, counted.jobs
    if moved > limits.jobs_moved * jobs:
        share = f"{moved} of {jobs} jobs move ({moved / max(1, jobs):.1%})"
        sentences.append(f"{share}; the limit is {limits.jobs_moved:.1%}")
    return sentences


def read_limits(path: Path) -> PreviewLimits:
    """Read and check the file with the limits.

    Raises:
        ConfigurationError: it is missing, not YAML, or has unknown names or values out of range.
    """
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
        return PreviewLimits.model_validate({} if content is None else content)
    except ValidationError as error:
        raise ConfigurationError(what_is_wrong(error), str(path), "compare with the file that is shipped") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(str(error), str(path), "compare with the file that is shipped") from error


def confirm(sentences: Sequence[str], yes: bool) -> None:
    """Show which limits are exceeded, and continue only if confirmed.

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

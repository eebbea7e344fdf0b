"""``broker retry-rule list|add|remove|test``: rules for the next attempt of a failed job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from broker.cli.context import moment_of, open_store, query_context
from broker.cli.output import Column, print_json, print_table, remark
from broker.retries.answers import retries
from broker.retries.answers.new_rule import NewRule, WrongRule
from broker.retries.answers.retries import RetryRuleLine, RuleTest
from broker.retries.statements.retry_rows import Editing
from broker.tuning.answers.values import Editor, editor_name

app = typer.Typer(no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="One object on stdout.")]
Reason = Annotated[str, typer.Option("--reason", help="Reason, for the record.")]
Source = Annotated[str | None, typer.Option("--source", help="Source of the error, such as pilotErrorCode.")]
Code = Annotated[int | None, typer.Option("--code", help="Code of the error.")]
ActionName = Annotated[
    str | None,
    typer.Option(
        "--action",
        help="no_retry, limit_retry, increase_memory, increase_memory_xtimes, increase_cputime, reduce_input_per_job.",
    ),
]
Diag = Annotated[str | None, typer.Option("--diag", help="Regular expression that the message matches from its start.")]
Parameters = Annotated[
    str | None,
    typer.Option("--parameters", help="Parameters of the action, such as maxAttempt=5 or margin=1.2&times=3."),
]
Architecture = Annotated[str | None, typer.Option("--architecture", help="Only jobs of this cmtConfig.")]
Release = Annotated[str | None, typer.Option("--release", help="Only jobs of this AtlasRelease.")]
WorkQueue = Annotated[int | None, typer.Option("--work-queue", min=1, help="Only jobs of this work queue.")]


@app.callback()
def retry_rule() -> None:
    """Rules for retries of failed jobs."""


@app.command("list")
def list_rules(
    context: typer.Context,
    removed: Annotated[bool, typer.Option("--removed", help="Include removed rules.")] = False,
    as_json: Json = False,
) -> None:
    """List the rules of PanDA's tables (panda:N) and your own (broker:N)."""
    with query_context(context) as query:
        listing = retries.rule_list(query, with_removed=removed)
    if as_json:
        print_json(listing)
        return
    columns = (
        "rule", "error", "action", "parameters", "mode", Column("message", drop_order=1), Column("only", drop_order=2),
        Column("expires", drop_order=3), Column("about", drop_order=4),
    )  # fmt: skip
    print_table(columns, [_row(line) for line in listing.rules], title="Retry rules")
    for line in listing.rules:
        if line.fault:
            remark(f"{line.rule} cannot act: {line.fault}")


def _row(line: RetryRuleLine) -> tuple[object, ...]:
    only = (line.architecture, line.release, None if line.work_queue is None else f"work queue {line.work_queue}")
    mode = "removed" if line.removed_at else "active" if line.active else "passive"
    return (
        line.rule,
        f"{line.source} {line.code}",
        line.action,
        "&".join(f"{name}={value}" for name, value in line.parameters.items()) or "-",
        mode if line.counts or line.removed_at else "expired",
        line.diag or "-",
        ", ".join(filter(None, only)) or "-",
        line.expires or "-",
        line.about or "-",
    )


@app.command()
def add(
    context: typer.Context,
    source: Source = None,
    code: Code = None,
    action: ActionName = None,
    diag: Diag = None,
    parameters: Parameters = None,
    architecture: Architecture = None,
    release: Release = None,
    work_queue: WorkQueue = None,
    active: Annotated[bool, typer.Option("--active", help="Act; without it, only record what it would do.")] = False,
    until: Annotated[
        str | None, typer.Option("--until", metavar="INSTANT", help="Time until which it counts (UTC).")
    ] = None,
    reason: Reason = "",
    editor: Editor = None,
    as_json: Json = False,
) -> None:
    """Add a rule of your own; it counts from the next cycle of the agent retries."""
    new = _new(source, code, action, diag, parameters, architecture, release, work_queue)
    with open_store(context) as database:
        now = moment_of(None, database, of_scenario=True)
        expires = None if until is None else moment_of(until, database, option="--until")
        by = Editing(now, editor_name(editor), reason)
        line = retries.add(database, new.model_copy(update={"active": active, "expires": expires}), by)
    if as_json:
        print_json(line)
    else:
        print_table(("rule", "error", "action", "parameters", "mode"), [_row(line)[:5]])


@app.command()
def remove(
    context: typer.Context,
    number: Annotated[
        int, typer.Argument(metavar="NUMBER", min=1, help="Number of a rule of your own: 3 for broker:3.")
    ],
    reason: Reason = "",
    editor: Editor = None,
    as_json: Json = False,
) -> None:
    """Remove a rule of your own; it stays on record."""
    with open_store(context) as database:
        by = Editing(datetime.now(UTC), editor_name(editor), reason)
        line = retries.remove(database, number, by)
    if as_json:
        print_json(line)
    else:
        remark(f"rule broker:{number} is removed")


@app.command("test")
def try_rule(
    context: typer.Context,
    rule: Annotated[
        str | None, typer.Argument(metavar="RULE", help="A rule of the list; or describe one with the options.")
    ] = None,
    days: Annotated[
        float, typer.Option("--days", min=0.01, max=365, help="Only jobs that failed within this many days.")
    ] = 7.0,
    source: Source = None,
    code: Code = None,
    action: ActionName = None,
    diag: Diag = None,
    parameters: Parameters = None,
    architecture: Architecture = None,
    release: Release = None,
    work_queue: WorkQueue = None,
    as_json: Json = False,
) -> None:
    """Show what a rule would have done to the jobs that failed in the last days; nothing is changed."""
    options = (source, code, action, diag, parameters, architecture, release, work_queue)
    if rule is not None and any(one is not None for one in options):
        raise WrongRule("a rule is named and written", "retry-rule test", "name one, or write one with options")
    with query_context(context) as query:
        known = retries.written(_new(*options)) if rule is None else retries.rule_named(query, rule)
        result = retries.test_rule(query, known, days)
    if as_json:
        print_json(result)
    else:
        _show(result)


def _new(
    source: str | None, code: int | None, action: str | None, diag: str | None, parameters: str | None,
    architecture: str | None, release: str | None, work_queue: int | None,
) -> NewRule:  # fmt: skip
    if source is None or code is None or action is None:
        raise WrongRule("no rule is named or written", "retry-rule", "write --source, --code and --action")
    return NewRule(
        source=source, code=code, action=action, diag=diag, parameters=parameters, architecture=architecture,
        release=release, work_queue=work_queue,
    )  # fmt: skip


def _show(result: RuleTest) -> None:
    rows = [
        ("failed jobs with its source and code", f"{result.looked_at}{' and more' if result.is_cut else ''}"),
        ("of them it would have applied to", f"{result.jobs} of {result.tasks} tasks"),
        *((f"would have been done: {what}", jobs) for what, jobs in result.by_effect.items()),
        *((f"at {queue}", jobs) for queue, jobs in result.by_queue.items()),
        ("later attempts that it prevents", result.later_attempts),
        ("core hours of those that failed", f"{result.later_core_h:.1f}"),
        ("of them finished, and would be lost", f"{result.later_finished} ({result.later_finished_core_h:.1f} core h)"),
    ]
    print_table(("what", "jobs"), rows, title=f"{result.rule.action} since {result.since:%Y-%m-%d %H:%M}Z")
    remark(result.sentence)

"""``broker jobs`` and ``broker job``: where jobs are and why, and why they failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.context import Json, query_context
from broker.cli.elsewhere import LARGEST_PAGE, Arguments, Document, RemoteAnswer
from broker.cli.output import Column, print_json, print_table, say
from broker.history.answers.job import job_answer, job_list
from broker.history.answers.job_models import MOST_LINES, JobAnswer, JobFilters, JobLine, JobList
from broker.history.model.error_classes import Failure

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

COLUMNS = (
    "job", Column("task", 3), "state", "queue", "error", Column("fault", 1), Column("why", 2), Column("MB", 5),
    Column("started", 6), Column("ended", 4),
)  # fmt: skip


def jobs(
    context: typer.Context,
    task: Annotated[int | None, typer.Option("--task", help="Only jobs of this task.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Only jobs at this queue.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="Only jobs in this state: running, failed, ...")] = None,
    error: Annotated[
        str | None,
        typer.Option(
            "--error", help="Only with this error: 1099, pilot:1099, a class (memory, vanished), or a fault (site)."
        ),
    ] = None,
    after: Annotated[int | None, typer.Option("--after", help="Only jobs with a lower number: the next page.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=MOST_LINES, help="Maximum number of jobs.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="One object per job.")] = False,
) -> None:
    """List jobs with their states, queues and errors, newest first."""
    filters = JobFilters(task=task, queue=queue, state=state, error=error, after=after, limit=limit)
    with query_context(context) as query:
        matches = job_list(query, filters)
    if as_json:
        for line in matches.jobs:
            print_json(line)
        return
    show_jobs(matches)


def show_jobs(matches: JobList) -> None:
    """Print jobs as a table."""
    print_table(COLUMNS, [_row(line) for line in matches.jobs], title=f"Jobs: {len(matches.jobs)}")
    if matches.next_after is not None:
        say(f"there are more; --after {matches.next_after} shows the next")


def job(
    context: typer.Context,
    pandaid: Annotated[int, typer.Argument(metavar="PANDAID", help="The job.")],
    as_json: Json = False,
) -> None:
    """Show a job: where it is and why, why it failed, its other attempts, and what happened to it."""
    with query_context(context) as query:
        details = job_answer(query, pandaid)
    if as_json:
        print_json(details)
    else:
        show_job(details)


def show_job(details: JobAnswer) -> None:
    """Print all details of a job."""
    for failure in details.failures[:1]:
        say(f"Failed: {failure.meaning} ({failure.error}, {failure.error_class}); fault by default: {_faults(failure)}")
    rows = [
        ("state", " ".join(filter(None, (details.jobstatus, details.jobsubstatus)))),
        ("task", details.jeditaskid),
        ("queue", details.computingsite),
        ("node", details.node),
        (
            "cores, memory",
            f"{details.corecount or 1}, {details.minramcount or 0} MB asked, {(details.maxrss or 0) // 1024} MB used",
        ),
        ("created, started, ended", f"{details.created_at}, {details.started_at or '-'}, {details.ended_at or '-'}"),
        ("log", details.log_url or "no pattern is configured: log_url in error_classes.yaml"),
    ]
    why = details.placement
    if why is not None:
        rows.append(
            (
                "why there",
                f"decision {why.decision} of {why.decided_at}: {why.jobs} jobs here, "
                f"{why.candidates} candidates; broker explain {details.jeditaskid}",
            )
        )
    print_table(("", ""), rows, title=f"Job {details.pandaid}")
    if details.failures:
        codes = [
            (failure.error, failure.meaning, failure.error_class, _faults(failure), failure.diag)
            for failure in details.failures
        ]
        print_table(("code", "meaning", "class", "fault", "diagnostics"), codes, title="Why it failed")
    if details.retries:
        rules = [
            (retry.rule, retry.action, "active" if retry.active else "passive", retry.reason)
            for retry in details.retries
        ]
        print_table(("rule", "action", "mode", "what it did"), rules, title="Retry rules")
    if details.attempts:
        attempts = [
            (*_row(attempt.job)[:1], *_row(attempt.job)[2:6], attempt.inputs, _changes(attempt.changed))
            for attempt in details.attempts
        ]
        print_table(("job", "state", "queue", "error", "fault", "inputs", "changed"), attempts, title="Attempts")
    steps = [(step.at, step.event, step.status, step.queue, step.rule) for step in details.steps]
    print_table(("at", "event", "state", "queue", "rule"), steps, title="What happened")


def _faults(failure: Failure) -> str:
    return " or ".join(failure.faults) or failure.fault


def _changes(changed: dict[str, tuple[object, object]]) -> str:
    return ", ".join(f"{name} {old} -> {new}" for name, (old, new) in changed.items())


def _row(line: JobLine) -> tuple[object, ...]:
    failure = line.failure
    cause = ("", "", "") if failure is None else (failure.error, failure.fault, failure.meaning)
    place = (line.pandaid, line.jeditaskid, line.jobstatus, line.computingsite)
    return (*place, *cause, line.minramcount, line.started_at, line.ended_at)


def _ask(client: BrokerClient, given: Arguments) -> Document:
    filters = {name: given[name] for name in JobFilters.model_fields if name != "limit" and name in given}
    return client.jobs(**filters, limit=min(given["limit"], LARGEST_PAGE))


JOBS_ELSEWHERE = RemoteAnswer(_ask, JobList, show_jobs, "jobs")
JOB_ELSEWHERE = RemoteAnswer(lambda client, given: client.job(given["pandaid"]), JobAnswer, show_job)

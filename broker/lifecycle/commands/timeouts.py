"""``broker timeouts`` and ``broker why-timeout``: which jobs have waited for too long, and when each rule fires."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from agents.lifecycle.timeout_inputs import TimeoutInputReader, TimeoutInputs
from agents.lifecycle.timeouts import move_object
from agents.service.configuration import config_file
from broker.cli.context import at_option, check_time, moment_of, open_store, settings_of
from broker.cli.output import print_json, print_table, remark
from broker.domain.instants import naive
from broker.errors import NotFound
from broker.lifecycle.model.check_job import Verdict, acting, check_job
from broker.lifecycle.model.jobs import Job
from broker.lifecycle.model.rules import RULES
from broker.lifecycle.statements.actions import JobAction
from broker.lifecycle.statements.scan import find_due, find_job, triggered_inactive_queues
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.gdpconfig_rows import TuningStore

At = Annotated[str | None, at_option("Check as of this time")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]

_ACTIONS = sa.text("""
    SELECT acted_at, agent, rule, old_status, new_status, queue, action, code, value_s, limit_s
    FROM broker.job_actions WHERE pandaid = :pandaid AND acted_at <= :now ORDER BY id""")


class NoSuchJob(NotFound):
    """The job is not known."""


@dataclass(frozen=True)
class _Look:
    """A read-only transaction, and what jobs are judged by in it."""

    connection: sa.Connection
    catalogue: TableCatalogue
    inputs: TimeoutInputs

    def due(self) -> list[JobAction]:
        return find_due(self.connection, self.catalogue, self.inputs.timeout_context)

    def job(self, pandaid: int) -> tuple[Job, list[Verdict]] | None:
        """A job with the verdict of each rule on it."""
        job = find_job(self.connection, self.catalogue, pandaid)
        if job is None:
            return None
        timeout_context = self.inputs.timeout_context
        inactive_queue_triggered = job.computingsite in triggered_inactive_queues(
            self.connection, self.catalogue, timeout_context
        )
        return job, check_job(
            job,
            timeout_context.queues.get(job.computingsite or ""),
            timeout_context.limits,
            timeout_context.now,
            inactive_queue_triggered,
        )


@contextmanager
def _looking(context: typer.Context, database: Database, now: datetime) -> Iterator[_Look]:
    reader = TimeoutInputReader(config_file("sources.yaml", settings_of(context).config))
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        published = TuningStore(database.names).read_current(connection, live=True)
        inputs = reader.read(connection, catalogue, published.tuning(None), now)
        yield _Look(connection, catalogue, inputs)
    for note in (*inputs.notes, *(f"gdpconfig: {row}" for row in published.bad_rows)):
        remark(f"note: {note}")


def timeouts(
    context: typer.Context,
    at: At = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Always so here: nothing is written.")] = False,
    as_json: Json = False,
) -> None:
    """List the jobs on which the timeouts would act now, by rule. `broker run timeouts` acts."""
    check_time(at)  # a wrong time is reported before anything is opened
    with open_store(context) as database:
        now = moment_of(at, database)
        with _looking(context, database, now) as look:
            due = look.due()
    if as_json:
        for move in due:
            print_json(move_object(move))
        return
    order = {rule.name: number for number, rule in enumerate(RULES)}
    by_rule = sorted(due, key=lambda move: (order[move.rule], move.pandaid))
    columns = ("rule", "pandaid", "queue", "status", "age s", "limit s", "action", "code")
    print_table(columns, [_cells(move) for move in by_rule])
    counts = Counter(move.rule for move in by_rule)
    remark(f"{len(due)} jobs" + "".join(f", {name} {count}" for name, count in counts.items()))


def why_timeout(
    context: typer.Context,
    pandaid: Annotated[int, typer.Argument(help="The job.")],
    at: At = None,
    as_json: Json = False,
) -> None:
    """Show when each timeout rule fires or fired for a job, and what keeps the others from firing."""
    check_time(at)
    with open_store(context) as database:
        now = moment_of(at, database)
        with _looking(context, database, now) as look:
            rows = look.connection.execute(_ACTIONS, {"pandaid": pandaid, "now": now}).mappings()
            done = [{"pandaid": pandaid, **row} for row in rows]
            judged = look.job(pandaid)
    if judged is None and not done:
        raise NoSuchJob(f"no job {pandaid}", "jobsdefined4, jobsactive4, broker.job_actions", "see jobsarchived4")
    output = [] if judged is None else _message(*judged, now)
    if as_json:
        for record in (*output, *done):
            print_json(record)
        return
    if judged is not None:
        _show(judged[0], output)
    if done:
        columns = list(done[0])[1:]
        print_table(columns, [[record[name] for name in columns] for record in done], title="What was done")


def _cells(move: JobAction) -> tuple[object, ...]:
    return (
        move.rule, move.pandaid, move.queue, move.old_status, move.value_s, move.limit_s, move.action, move.code
    )  # fmt: skip


def _message(job: Job, verdicts: Sequence[Verdict], now: datetime) -> list[dict[str, Any]]:
    """One object for each rule about jobs in this table."""
    acts = acting(list(verdicts))
    moment = naive(now)
    return [
        {
            "pandaid": job.pandaid,
            "queue": job.computingsite,
            "status": job.jobstatus,
            "rule": verdict.rule.name,
            "value_s": None if verdict.since is None else (moment - verdict.since).total_seconds(),
            "limit_s": verdict.limit_s,
            "action": verdict.rule.action,
            "code": verdict.code,
            "fires_at": verdict.fires_at,
            "fired": verdict.fired,
            "acts": verdict is acts,
            "excused": list(verdict.excused),
        }
        for verdict in verdicts
    ]


def _show(job: Job, output: Sequence[dict[str, Any]]) -> None:
    columns = ("rule", "age s", "limit s", "fires after (UTC)", "action", "code", "now")
    rows = [
        (
            line["rule"], line["value_s"], line["limit_s"], line["fires_at"], line["action"], line["code"],
            "acts" if line["acts"] else "over the limit" if line["fired"] else ", ".join(line["excused"]) or "waits",
        )
        for line in output
        if "status" not in line["excused"]
    ]  # fmt: skip
    title = f"Job {job.pandaid}: {job.jobstatus} at {job.computingsite}, priority {job.currentpriority or 0}"
    print_table(columns, rows, title=title)
    if not rows:
        remark(f"no rule looks at jobs that are {job.jobstatus}")

"""``broker explain`` and ``broker why-not``: the last decision about a task, and why a queue was not chosen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from broker import __version__
from broker.cli.context import open_store, settings_of
from broker.cli.decided import describe_answer, sentence
from broker.cli.moments import until
from broker.cli.output import escaped, print_json, print_table, remark
from broker.cli.rules import chain_of
from broker.domain.work_codec import WorkCorruptError, decode_placed, decode_work
from broker.engine.job_cycle import JobCycle
from broker.engine.why_not import Answer
from broker.engine.why_not import why_not as answers_of
from broker.errors import BrokerError, Refused
from broker.store import decisions
from broker.store.database import Database
from broker.store.decision_object import decision_object
from broker.store.decisions import StoredDecision
from broker.store.gdpconfig_rows import TuningStore
from broker.store.snapshot_loading import stored_snapshot

Task = Annotated[int, typer.Argument(help="The task (jeditaskid).")]
Json = Annotated[bool, typer.Option("--json", help="One object a line.")]
At = Annotated[str, typer.Option("--at", metavar="TIME|now", help="The last decision up to this time (UTC).")]


class NothingDecided(BrokerError):
    """No cycle has looked at the task."""


class NotReproducible(Refused):
    """The decision was stored without what is needed to ask it again."""


def explain(context: typer.Context, task: Task, at: At = "now", as_json: Json = False) -> None:
    """The last decision about a task: outcome, funnel, candidates with each weight factor, and reasons."""
    with open_store(context) as database, database.begin() as connection:
        found = _latest(connection, task, until(at))
    for stored in found:
        if as_json:
            print_json(decision_object(stored.origin, stored.record))
        else:
            _show(stored)


def why_not(context: typer.Context, task: Task, queue: str, at: At = "now", as_json: Json = False) -> None:
    """The rule that rejected a queue for a task, the value it saw, the limit, and the key that set it."""
    with open_store(context) as database, database.begin() as connection:
        answers = [
            (stored, answer)
            for stored in _latest(connection, task, until(at))
            for answer in _answers(database, connection, stored, queue, settings_of(context).config)
        ]
    if as_json:
        for stored, answer in answers:
            decision = stored.record.decision
            chunk = {"jeditaskid": task, "datasetid": decision.datasetid, "ramcount": decision.ramcount}
            print_json({**chunk, **describe_answer(answer)})
        return
    rows = [
        (
            f"{stored.record.decision.datasetid or ''}/{stored.record.decision.ramcount or 0:g}",
            answer.queue,
            answer.code,
            answer.rule,
            *_compared(answer),
        )
        for stored, answer in answers
    ]
    columns = ("chunk", "queue", "code", "rule", "value", "must be", "limit", "unit", "set by")
    print_table(columns, rows, title=f"Task {task} and {queue}")
    for _, answer in answers:
        typer.echo(escaped(sentence(answer)))


def answers_about(database: Database, task: int, queue: str, config: Path | None = None) -> list[Answer]:
    """Why the last decision about a task did not choose a queue: one answer for each chunk and pseudo-queue.

    Raises:
        NothingDecided: no cycle has looked at the task.
        NotReproducible: the decision was stored without what is needed to ask it again.
    """
    with database.begin() as connection:
        return [
            answer
            for stored in _latest(connection, task, None)
            for answer in _answers(database, connection, stored, queue, config)
        ]


def _compared(answer: Answer) -> tuple[object, ...]:
    seen = answer.observation
    return ("", "", "", "", "") if seen is None else (seen.value, seen.operator, seen.limit, seen.unit, seen.key)


def _latest(connection: sa.Connection, task: int, at: datetime | None) -> Sequence[StoredDecision]:
    found = decisions.latest(connection, task, at)
    if not found:
        raise NothingDecided(
            f"no decision about task {task}",
            "broker.decisions",
            f"run: broker run production_job --task {task} --dry-run",
        )
    return found


def _answers(
    database: Database, connection: sa.Connection, stored: StoredDecision, queue: str, config: Path | None
) -> list[Answer]:
    decision, origin = stored.record.decision, stored.origin
    if stored.record.work is None or origin.snapshot is None:
        code = decision.rejected.get(queue)
        if code is None:
            raise NotReproducible(
                f"decision {stored.id} was stored without its work", "broker.decisions", "run the agent again, then ask"
            )
        return [Answer(queue, code, "", "", "the decision was stored without its work", None)]
    if origin.engine != __version__:
        remark(f"decided by version {origin.engine}; asked again with the rules of {__version__}")
    try:
        work, placed = decode_work(stored.record.work), decode_placed(stored.record.work)
    except WorkCorruptError as error:
        raise NotReproducible(str(error), f"decision {stored.id}", "run the agent again, then ask") from error
    snapshot = stored_snapshot(connection, origin.snapshot)
    published = TuningStore(database.names).version(connection, origin.tuning)
    cycle = JobCycle(snapshot, work, published.tuning(work.chunks.vo[0]), chain_of(decision.brokerage, config))
    cycle.restore(0, placed)
    return answers_of(cycle, next(cycle.results()), queue)


def _show(stored: StoredDecision) -> None:
    record, origin = stored.record, stored.origin
    decision = record.decision
    facts: list[tuple[str, Any]] = [
        ("brokerage", decision.brokerage),
        ("chunk", f"dataset {decision.datasetid}, ramcount {decision.ramcount or 0:g}"),
        ("outcome", f"{decision.outcome} {decision.reason}".strip()),
        ("decided at", origin.decided_at),
        ("snapshot, tuning, seed", f"{origin.snapshot}, {origin.tuning}, {origin.seed}"),
        ("pending until", record.pending_until or "-"),
        ("notes", ", ".join(decision.notes) or "-"),
    ]
    print_table(("", ""), facts, title=f"Task {decision.jeditaskid}")
    cut = [step for step in decision.funnel if step.before != step.after]
    rows = [(step.code, step.before, step.after, step.before - step.after) for step in cut]
    print_table(
        ("rule", "before", "after", "cut"), rows, title="Funnel (candidates; rules that cut nothing are left out)"
    )
    factors = list(decision.candidates[0].factors) if decision.candidates else []
    print_table(
        ("candidate", "weight", "jobs", *factors),
        [
            (one.name, one.weight, record.assigned.get(one.name, 0), *(one.factors.get(name) for name in factors))
            for one in decision.candidates
        ],
        title="Candidates",
    )
    reasons: dict[str, list[str]] = {}
    for queue, code in decision.rejected.items():
        reasons.setdefault(code, []).append(queue)
    print_table(
        ("reason", "queues", "such as"),
        [(code, len(queues), ", ".join(sorted(queues)[:4])) for code, queues in reasons.items()],
        title="Rejected",
    )

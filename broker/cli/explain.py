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
from broker.cli.task_answers import nucleus_answer
from broker.domain.decisions import Decision
from broker.domain.work_codec import WorkCorruptError, decode_placed, decode_work
from broker.engine.analysis_chain import AnalysisChain
from broker.engine.analysis_cycle import THROTTLED, AnalysisCycle
from broker.engine.chain import Chain, NucleusChain, RuleList
from broker.engine.job_cycle import JobCycle
from broker.engine.task_why_not import UNKNOWN_NUCLEUS
from broker.engine.why_not import UNKNOWN_NAME, Answer
from broker.engine.why_not import why_not as answers_of
from broker.errors import BrokerError, Refused
from broker.gdpconfig.publish import Published
from broker.snapshot.snapshot import Snapshot
from broker.store import decisions
from broker.store.database import Database
from broker.store.decision_object import decision_object
from broker.store.decisions import StoredDecision
from broker.store.gdpconfig_rows import TuningStore
from broker.store.snapshot_loading import stored_snapshot

Task = Annotated[int, typer.Argument(help="The task (jeditaskid).")]
Json = Annotated[bool, typer.Option("--json", help="One object a line.")]
Name = Annotated[str, typer.Argument(metavar="QUEUE|NUCLEUS", help="A queue, or a nucleus for the task brokerage.")]
Brokerage = Annotated[str | None, typer.Option("--brokerage", help="The last decision of this brokerage [of any].")]
At = Annotated[str, typer.Option("--at", metavar="TIME|now", help="The last decision up to this time (UTC).")]


class NothingDecided(BrokerError):
    """No cycle has looked at the task."""


class NotReproducible(Refused):
    """The decision was stored without what is needed to ask it again."""


def explain(
    context: typer.Context, task: Task, at: At = "now", brokerage: Brokerage = None, as_json: Json = False
) -> None:
    """The last decision about a task: outcome, funnel, candidates with each weight factor, and reasons."""
    with open_store(context) as database, database.begin() as connection:
        found = _latest(connection, task, until(at), brokerage)
    for stored in found:
        if as_json:
            print_json(decision_object(stored.origin, stored.record))
        else:
            _show(stored)


def why_not(context: typer.Context, task: Task, queue: Name, at: At = "now", as_json: Json = False) -> None:
    """The rule that rejected a queue or nucleus for a task, the value it saw, the limit, and the key that set it."""
    with open_store(context) as database, database.begin() as connection:
        answers = _answers_about(database, connection, task, queue, until(at), settings_of(context).config)
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
    """Why the last decisions about a task did not choose a queue: one answer for each chunk and pseudo-queue.

    With the name of a nucleus it is the decision of the task brokerage that answers.

    Raises:
        NothingDecided: no cycle has looked at the task.
        NotReproducible: the decision was stored without what is needed to ask it again.
    """
    with database.begin() as connection:
        return [answer for _, answer in _answers_about(database, connection, task, queue, None, config)]


def _answers_about(
    database: Database, connection: sa.Connection, task: int, name: str, at: datetime | None, config: Path | None
) -> list[tuple[StoredDecision, Answer]]:
    """The answers of the last decision of each brokerage; those that do not know the name only if nobody does."""
    last = decisions.latest_of_each(connection, task, at) or _latest(connection, task, at)
    told = [(stored, answer) for stored in last for answer in _answers(database, connection, stored, name, config)]
    known = [(stored, answer) for stored, answer in told if answer.code not in (UNKNOWN_NAME, UNKNOWN_NUCLEUS)]
    return known or told


def _compared(answer: Answer) -> tuple[object, ...]:
    seen = answer.observation
    return ("", "", "", "", "") if seen is None else (seen.value, seen.operator, seen.limit, seen.unit, seen.key)


def _latest(
    connection: sa.Connection, task: int, at: datetime | None, brokerage: str | None = None
) -> Sequence[StoredDecision]:
    found = decisions.latest(connection, task, at, brokerage)
    if not found:
        raise NothingDecided(
            f"no decision about task {task}",
            "broker.decisions",
            f"run: broker run {brokerage or 'production_job'} --task {task} --dry-run",
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
    snapshot = stored_snapshot(connection, origin.snapshot)
    published = TuningStore(database.names).version(connection, origin.tuning)
    chain = chain_of(decision.brokerage, config, RuleList)
    try:
        if isinstance(chain, NucleusChain):
            return [nucleus_answer(decision, stored.record.work, snapshot, published, chain, queue, config)]
        # with quotas that could not be read, the agent's option said whether anything went
        closed = decision.reason == f"{THROTTLED}quota_unknown"
        rules = chain_of(decision.brokerage, config)
        return _queue_answers(stored.record.work, snapshot, published, rules, queue, closed)
    except WorkCorruptError as error:
        raise NotReproducible(str(error), f"decision {stored.id}", "run the agent again, then ask") from error


def _queue_answers(
    data: bytes, snapshot: Snapshot, published: Published, chain: Chain, queue: str, quota_closed: bool
) -> list[Answer]:
    work, placed = decode_work(data), decode_placed(data)
    tuning = published.tuning(work.chunks.vo[0])
    cycle = (
        AnalysisCycle(snapshot, work, tuning, chain, quota_closed=quota_closed)
        if isinstance(chain, AnalysisChain)
        else JobCycle(snapshot, work, tuning, chain)
    )
    cycle.restore(0, placed)
    return answers_of(cycle, next(cycle.results()), queue)


def _chunk(decision: Decision) -> list[tuple[str, str]]:
    if decision.datasetid is None:
        return []
    return [("chunk", f"dataset {decision.datasetid}, ramcount {decision.ramcount or 0:g}")]


def _show(stored: StoredDecision) -> None:
    record, origin = stored.record, stored.origin
    decision = record.decision
    facts: list[tuple[str, Any]] = [
        ("decision", stored.id),
        ("brokerage", decision.brokerage),
        *_chunk(decision),
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

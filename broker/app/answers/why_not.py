"""The answer to why-not: the rule that decided about a candidate, what it saw, the limit, and what set it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from broker.app.answers.asking import Asking, NothingFound, known_name
from broker.app.answers.decision import held_field, no_decision
from broker.app.answers.decision_model import RuleVerdict, WhyNot, WhyNotLine
from broker.app.answers.parts import compared, rejected_candidate
from broker.app.answers.remedies import case_of
from broker.app.answers.snapshots import snapshot_of
from broker.app.explain import answers_of
from broker.domain.decision_records import StoredDecision
from broker.domain.rejection_counts import unified_of
from broker.engine.shared.answer import Answer
from broker.store.answers.task_facts import TaskSelection, read_task_facts
from broker.store.connection.database import Database
from broker.store.decisions import decision_rows
from broker.store.feeds.queue_pins import held_pins

Warn = Callable[[str], None]


def why_not(
    asking: Asking,
    database: Database,
    jeditaskid: int,
    name: str,
    at: datetime | None = None,
    every: bool = False,
    warn: Warn = lambda warning: None,
) -> WhyNot:
    """Why the last decisions about a task did not choose a queue, pseudo-queue or nucleus.

    Args:
        asking: who is asked.
        database: with the decisions.
        jeditaskid: the task.
        name: of the candidate, whatever its case.
        at: the last decisions up to this instant (aware); None for the last of all.
        every: whether to say what every rule says of each pseudo-queue, not only the one that decided.
        warn: takes what somebody who reads the answer should know.

    Raises:
        NothingFound: no cycle has looked at the task, or nothing has the name; the nearest names are said.
        NotReproducible: a decision was stored without what is needed to ask it again.
    """
    last = decision_rows.latest_of_each(asking.connection, jeditaskid, at)
    if not last:
        facts = read_task_facts(asking.connection, asking.catalogue, TaskSelection(tasks=[jeditaskid]))
        raise no_decision(jeditaskid, bool(facts), None)
    meant = _meant(asking, last, name)
    found = answers_of(database, asking.connection, jeditaskid, meant, at, asking.config, warn)
    moments = sorted({stored.origin.decided_at for stored, _ in found})
    queue = unified_of(meant)
    pins = [pin for moment in moments for pin in held_pins(asking.connection, moment, queue)]
    return WhyNot(
        now=asking.now,
        jeditaskid=jeditaskid,
        name=meant,
        answers=tuple(_line(asking, stored, answer, every) for stored, answer in found),
        pins=tuple(held_field(pin) for pin in pins),
    )


def _meant(asking: Asking, last: list[StoredDecision], name: str) -> str:
    """The candidate of the decisions' snapshots that is meant."""
    known: dict[str, None] = {}
    for stored in last:
        if stored.origin.snapshot is not None and stored.record.work is not None:
            snapshot = snapshot_of(asking.connection, stored.origin.snapshot)
            tables = (snapshot.unified.name, snapshot.queues.name, snapshot.nuclei.name)
            known.update(dict.fromkeys(str(one) for table in tables for one in table))
        decision = stored.record.decision
        known.update(dict.fromkeys((*decision.rejected, *(one.name for one in decision.candidates))))
    try:
        return known_name("queue or nucleus", name, known, "the snapshot of the decision")
    except NothingFound:
        if any(name in stored.record.decision.rejected for stored in last):
            return name
        raise


def _line(asking: Asking, stored: StoredDecision, answer: Answer, every: bool) -> WhyNotLine:
    decision = stored.record.decision
    return WhyNotLine(
        decision=stored.id,
        brokerage=decision.brokerage,
        datasetid=decision.datasetid,
        ramcount=decision.ramcount,
        decided_at=stored.origin.decided_at,
        candidate=rejected_candidate(answer),
        every_rule=tuple(_every_rule(asking, stored, answer.queue)) if every else (),
    )


def _every_rule(asking: Asking, stored: StoredDecision, name: str) -> Iterator[RuleVerdict]:
    if stored.record.work is None or stored.origin.snapshot is None:
        return
    for one in case_of(asking, stored).every_rule(name):
        yield RuleVerdict(
            rule=one.rule, code=one.code, kind=one.kind, verdict=one.verdict, compared=compared(one.observation)
        )

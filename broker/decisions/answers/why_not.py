"""The answer to why-not: the rule that decided about a candidate, its value and limit, and what set the limit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from broker.decisions.answers.decision import no_decision
from broker.decisions.answers.decision_model import WhyNot, WhyNotLine, rejected_candidate
from broker.decisions.answers.explain import read_answers
from broker.decisions.answers.remedies import Case, case_of
from broker.domain.decisions import StoredDecision
from broker.domain.rejection_counts import unified_of
from broker.engine.shared.answer import CandidateVerdict, RuleVerdict
from broker.feeds.statements.queue_pins import held_pins
from broker.grid.answers.grid import snapshot_of
from broker.history.statements.task_facts import TaskSelection, read_task_facts
from broker.store.connection.database import Database
from broker.store.decisions import decision_rows
from broker.store.query_context import Evaluation, NothingFound, Proceed, QueryContext, known_name, proceed

Warn = Callable[[str], None]


def why_not(
    query: QueryContext,
    database: Database,
    jeditaskid: int,
    name: str,
    at: datetime | None = None,
    every: bool = False,
    warn: Warn = lambda warning: None,
) -> WhyNot:
    """Why the last decisions about a task did not choose a queue, pseudo-queue or nucleus.

    Args:
        query: the query context.
        database: database with the decisions.
        jeditaskid: the task.
        name: name of the candidate, case-insensitive.
        at: the last decisions up to this instant (aware); None for the last of all.
        every: whether to give the verdict of every rule on each pseudo-queue, not only of the one that decided.
        warn: receives warnings for the reader of the answer.

    Raises:
        NothingFound: no cycle has considered the task, or nothing has the name; the nearest names are given.
        NotReproducible: a decision was stored without the data needed to evaluate it again.
    """
    return read_why_not(query, database, jeditaskid, name, at, every, warn)(proceed)


def read_why_not(
    query: QueryContext,
    database: Database,
    jeditaskid: int,
    name: str,
    at: datetime | None = None,
    every: bool = False,
    warn: Warn = lambda warning: None,
    most: int | None = None,
) -> Evaluation[WhyNot]:
    """Like :func:`why_not`, in two parts: this reads, and the result evaluates the rules without a connection.

    With ``most``, every rule is evaluated for the first ``most`` pseudo-queues only. The result raises
    :class:`NotReproducible`, too.
    """
    last = decision_rows.latest_of_each(query.connection, jeditaskid, at)
    if not last:
        facts = read_task_facts(query.connection, query.catalogue, TaskSelection(tasks=[jeditaskid]))
        raise no_decision(jeditaskid, bool(facts), None)
    candidate = _meant(query, last, name)
    ask = read_answers(database, query.connection, jeditaskid, candidate, at, query.config, warn)
    pins = {one.id: held_pins(query.connection, one.origin.decided_at, unified_of(candidate)) for one in last}
    cases = {one.id: _case(query, one) for one in last} if every else {}

    def evaluated(proceed: Proceed) -> WhyNot:
        answers = ask(proceed)
        moments = {stored.origin.decided_at: stored.id for stored, _ in answers}
        return WhyNot(
            now=query.now,
            jeditaskid=jeditaskid,
            name=candidate,
            answers=tuple(
                _line(stored, answer, cases.get(stored.id) if most is None or place < most else None, proceed)
                for place, (stored, answer) in enumerate(answers)
            ),
            pins=tuple(pin.held_field for moment in sorted(moments) for pin in pins[moments[moment]]),
        )

    return evaluated


def _case(query: QueryContext, stored: StoredDecision) -> Case | None:
    """The decision, ready to be evaluated again; None if it was stored without the necessary data."""
    return None if stored.record.work is None or stored.origin.snapshot is None else case_of(query, stored)


def _meant(query: QueryContext, last: list[StoredDecision], name: str) -> str:
    """The candidate of the decisions' snapshots that a name means."""
    known: dict[str, None] = {}
    for stored in last:
        if stored.origin.snapshot is not None and stored.record.work is not None:
            snapshot = snapshot_of(query.connection, stored.origin.snapshot)
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


def _line(stored: StoredDecision, answer: CandidateVerdict, case: Case | None, proceed: Proceed) -> WhyNotLine:
    decision = stored.record.decision
    return WhyNotLine(
        decision=stored.id,
        brokerage=decision.brokerage,
        datasetid=decision.datasetid,
        ramcount=decision.ramcount,
        decided_at=stored.origin.decided_at,
        candidate=rejected_candidate(answer),
        every_rule=() if case is None else tuple(_every_rule(case, answer.queue, proceed)),
    )


def _every_rule(case: Case, name: str, proceed: Proceed) -> list[RuleVerdict]:
    proceed()
    return case.every_rule(name)

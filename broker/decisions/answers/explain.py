"""The last decisions about a task, and why they did not choose a candidate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from broker import __version__
from broker.brokerages.registry import brokerage as brokerage_of
from broker.codec.work_codec import WorkCorruptError, unpacked
from broker.decisions.answers.rules_in_force import rules_in_force
from broker.domain.decisions import StoredDecision
from broker.engine.shared.answer import CandidateVerdict
from broker.errors import NotFound, Refused
from broker.grid.answers.grid import snapshot_of
from broker.store.connection.database import Database
from broker.store.decisions import decision_rows as decisions
from broker.store.gdpconfig_rows import TuningStore
from broker.store.query_context import Evaluation, Proceed, proceed

Warn = Callable[[str], None]


class NothingDecided(NotFound):
    """No cycle has considered the task."""


class NotReproducible(Refused):
    """The decision was stored without the data needed to evaluate it again."""


def answers_about(database: Database, task: int, queue: str, config: Path | None = None) -> list[CandidateVerdict]:
    """Why the last decisions about a task did not choose a queue: one answer for each chunk and pseudo-queue.

    For the name of a nucleus, the answer comes from the decision of the task brokerage.

    Raises:
        NothingDecided: no cycle has considered the task.
        NotReproducible: the decision was stored without the data needed to evaluate it again.
    """
    with database.begin() as connection:
        evaluate = read_answers(database, connection, task, queue, None, config, lambda warning: None)
    return [answer for _, answer in evaluate(proceed)]


def read_answers(
    database: Database,
    connection: sa.Connection,
    task: int,
    name: str,
    at: datetime | None,
    config: Path | None,
    warn: Warn,
) -> Evaluation[list[tuple[StoredDecision, CandidateVerdict]]]:
    """The answers of the last decision of each brokerage that knows the name, or of all if none does.

    The decisions are read here; the result evaluates them, and raises :class:`NotReproducible`.

    Args:
        database: database with the decisions.
        connection: connection to it.
        task: jeditaskid.
        name: name of the candidate.
        at: the last decisions up to this instant; None for the last of all.
        config: folder with the operator's own configuration files.
        warn: receives warnings for the reader of the answers.

    Raises:
        NothingDecided: no cycle has considered the task.
        NotReproducible: a decision was stored without the data needed to evaluate it again.
    """
    last = decisions.latest_of_each(connection, task, at) or latest(connection, task, at)
    evaluations = [(stored, _answers(database, connection, stored, name, config, warn)) for stored in last]

    def evaluated(proceed: Proceed) -> list[tuple[StoredDecision, CandidateVerdict]]:
        answers = [(stored, answer) for stored, ask in evaluations for answer in ask(proceed)]
        return [(stored, answer) for stored, answer in answers if answer.is_known] or answers

    return evaluated


def latest(
    connection: sa.Connection, task: int, at: datetime | None, brokerage: str | None = None
) -> Sequence[StoredDecision]:
    """The decisions of the last cycle that considered a task.

    Raises:
        NothingDecided: there is none.
    """
    rows = decisions.latest(connection, task, at, brokerage)
    if not rows:
        agent = brokerage or "AGENT"
        remedy = f"see broker run {agent} --task {task} --dry-run"
        raise NothingDecided(f"no decision about task {task}", "broker.decisions", remedy)
    return rows


def _answers(
    database: Database, connection: sa.Connection, stored: StoredDecision, queue: str, config: Path | None, warn: Warn
) -> Evaluation[list[CandidateVerdict]]:
    decision, origin = stored.record.decision, stored.origin
    if stored.record.work is None or origin.snapshot is None:
        code = decision.rejected.get(queue)
        if code is None:
            raise NotReproducible(
                f"decision {stored.id} was stored without its work", "broker.decisions", "run the agent again, then ask"
            )
        without_work = CandidateVerdict(queue, code, "", "", "the decision was stored without its work", None)
        return lambda proceed: [without_work]
    if origin.engine != __version__:
        warn(f"decided by version {origin.engine}; asked again with the rules of {__version__}")
    snapshot = snapshot_of(connection, origin.snapshot)
    published = TuningStore(database.names).version(connection, origin.tuning)
    rules, body = rules_in_force(decision.brokerage, config), stored.record.work

    def evaluated(proceed: Proceed) -> list[CandidateVerdict]:
        proceed()
        try:
            brokerage = brokerage_of(decision.brokerage)
            batch = brokerage.batch(unpacked(body), older=origin.engine != __version__)
            return brokerage.why_not(snapshot, published.tuning(batch.vo), batch, rules, decision, queue)
        except WorkCorruptError as error:
            raise NotReproducible(str(error), f"decision {stored.id}", "run the agent again, then ask") from error

    return evaluated

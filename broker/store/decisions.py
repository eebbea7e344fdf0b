"""The rows of ``broker.decisions``: everything that was decided, written with what it brought about.

A decision names the run, snapshot, tuning version, engine version and seed it came from, so that it can be asked again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from sqlalchemy import text
from sqlalchemy.engine import Connection

from broker.domain.decisions import Candidate, Decision, FunnelStep
from broker.gdpconfig.canary import Canary


@dataclass(frozen=True)
class Origin:
    """What all decisions of a cycle have in common.

    Attributes:
        agent_run: the run that decided.
        decided_at: the instant for which it decided (aware).
        snapshot: id of the snapshot.
        tuning: version of the gdpconfig values.
        seed: of everything random.
        engine: version of the broker.
        canary: values tried on some of the tasks; of decisions that are read back, ``tuning`` says it.
        canary_tuning: version of the gdpconfig values for these tasks.
    """

    agent_run: int | None
    decided_at: datetime
    snapshot: str | None
    tuning: int
    seed: int
    engine: str
    canary: Canary | None = None
    canary_tuning: int = 0

    def tuning_for(self, jeditaskid: int) -> int:
        """Version of the gdpconfig values by which a task was brokered."""
        chosen = self.canary is not None and self.canary.chooses(jeditaskid)
        return self.canary_tuning if chosen else self.tuning


@dataclass(frozen=True)
class DecisionRecord:
    """A decision and what became of it.

    Attributes:
        decision: the decision.
        assigned: jobs by unified queue that were written (or, beside JEDI, would have been made).
        pending_until: when the task is brokered again, if it has to wait.
        work: the decided chunk in the form in which it can be decided again.
    """

    decision: Decision
    assigned: Mapping[str, int] = field(default_factory=dict)
    pending_until: datetime | None = None
    work: bytes | None = None


@dataclass(frozen=True)
class StoredDecision:
    """A decision as it was read back."""

    id: int
    origin: Origin
    record: DecisionRecord


COLUMNS = (
    "agent_run, jeditaskid, datasetid, ramcount, brokerage, outcome, reason, decided_at, snapshot, tuning, seed, "
    "engine, funnel, candidates, rejected, assigned, notes, work, pending_until"
)
_COPY = f"COPY broker.decisions ({COLUMNS}) FROM STDIN"

_LAST_COLUMNS = COLUMNS.replace("brokerage", "decided.brokerage").replace("decided_at", "decided.decided_at")
_LATEST = text(f"""
    SELECT DISTINCT ON (decided.brokerage, datasetid, ramcount) id, {_LAST_COLUMNS}
    FROM broker.decisions AS decided
    JOIN (
        SELECT brokerage, max(decided_at) AS decided_at FROM broker.decisions
        WHERE jeditaskid = :jeditaskid AND decided_at <= coalesce(:until, 'infinity'::timestamptz)
          AND (CAST(:brokerage AS text) IS NULL OR brokerage = :brokerage)
        GROUP BY brokerage
    ) AS last ON last.brokerage = decided.brokerage AND last.decided_at = decided.decided_at
    WHERE jeditaskid = :jeditaskid
    ORDER BY decided.brokerage DESC, datasetid, ramcount NULLS FIRST, id DESC""")  # noqa: S608 - the columns are a constant of this module


def _json(value: object) -> str:
    # PostgreSQL's jsonb holds neither NUL nor lone surrogates; a name from outside may hold both.
    told = json.dumps(value, separators=(",", ":"))
    if "\\u0000" in told or "\\ud" in told:
        return json.dumps(_clean(value), separators=(",", ":"))
    return told


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_clean(name): _clean(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    return value


def _rows(origin: Origin, records: Sequence[DecisionRecord]) -> Iterator[tuple[Any, ...]]:
    for record in records:
        decision = record.decision
        yield (
            origin.agent_run,
            decision.jeditaskid,
            decision.datasetid,
            decision.ramcount,
            decision.brokerage,
            decision.outcome,
            _clean(decision.reason),
            origin.decided_at,
            origin.snapshot,
            origin.tuning_for(decision.jeditaskid),
            origin.seed,
            origin.engine,
            _json([[step.code, step.before, step.after] for step in decision.funnel]),
            _json([candidate_to_json(candidate) for candidate in decision.candidates]),
            _json(rejected_by_code(decision.rejected)),
            _json(dict(record.assigned)),
            _json(list(decision.notes)),
            record.work,
            record.pending_until,
        )


def rejected_by_code(rejected: Mapping[str, str]) -> dict[str, list[str]]:
    """The rejected queues by reason: each name once and each code once is half of what a map of all queues takes."""
    queues: dict[str, list[str]] = {}
    for queue, code in rejected.items():
        queues.setdefault(code, []).append(queue)
    return queues


def candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    """A candidate as it is stored."""
    told: dict[str, Any] = {
        "name": candidate.name,
        "weight": candidate.weight,
        "factors": candidate.factors,
    }
    return {**told, "bootstrap": True} if candidate.bootstrap else told


# Where the server has it, lz4 packs the long lists of rejected queues in a fraction of the time.
_COMPRESSION = """
    SELECT set_config('default_toast_compression', 'lz4', true)
    FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY(enumvals)"""


def save(connection: psycopg.Connection[Any], origin: Origin, records: Sequence[DecisionRecord]) -> int:
    """Append decisions in the transaction of ``connection``; how many there were."""
    connection.execute(_COMPRESSION)
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        for row in _rows(origin, records):
            copy.write_row(row)
    return len(records)


def latest(
    connection: Connection, jeditaskid: int, until: datetime | None = None, brokerage: str | None = None
) -> list[StoredDecision]:
    """The decisions of the last cycle (up to ``until``) that looked at a task, one a chunk; none when no cycle has.

    With ``brokerage`` only its cycles count. Two brokerages may have decided at the same instant.
    """
    found = latest_of_each(connection, jeditaskid, until, brokerage)
    last = max((stored.origin.decided_at for stored in found), default=None)
    return [stored for stored in found if stored.origin.decided_at == last]


def latest_of_each(
    connection: Connection, jeditaskid: int, until: datetime | None = None, brokerage: str | None = None
) -> list[StoredDecision]:
    """The decisions of the last cycle of each brokerage that looked at a task; that of the nucleus comes first."""
    values = {"jeditaskid": jeditaskid, "until": until, "brokerage": brokerage}
    return [stored_decision(dict(row._mapping)) for row in connection.execute(_LATEST, values)]


def stored_decision(row: dict[str, Any]) -> StoredDecision:
    """A row of ``broker.decisions`` with its id and all of :data:`COLUMNS`."""
    decision = Decision(
        jeditaskid=row["jeditaskid"],
        datasetid=row["datasetid"],
        ramcount=row["ramcount"],
        brokerage=row["brokerage"],
        outcome=row["outcome"],
        reason=row["reason"] or "",
        candidates=tuple(
            Candidate(one["name"], one["weight"], one["factors"], one.get("bootstrap", False))
            for one in row["candidates"] or []
        ),
        rejected={queue: code for code, queues in (row["rejected"] or {}).items() for queue in queues},
        funnel=tuple(FunnelStep(*step) for step in row["funnel"] or []),
        notes=tuple(row["notes"] or []),
    )
    origin = Origin(
        row["agent_run"], row["decided_at"], row["snapshot"], row["tuning"] or 0, row["seed"] or 0, row["engine"] or ""
    )
    work = None if row["work"] is None else bytes(row["work"])
    record = DecisionRecord(decision, row["assigned"] or {}, row["pending_until"], work)
    return StoredDecision(row["id"], origin, record)

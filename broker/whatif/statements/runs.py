"""The rows of ``broker.runs``: requested what-ifs, sweeps and replays, their progress and results.

Simulations are run by a command and added when they are done.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from broker.store.query_context import ResponseModel

State = Literal["waiting", "running", "done", "failed", "cancelled"]
LOST_AFTER_S = 60.0
"""Seconds without a sign of life from its process after which a run counts as lost."""

_COLUMNS = """id, kind, asked, subject, state, done, total, created_at, started_at, ended_at, holder, cancel, result,
    problem"""
_INSERT_RUN = sa.text("""
    INSERT INTO broker.runs (kind, asked, subject) VALUES (:kind, CAST(:asked AS jsonb), :subject) RETURNING id""")
_COUNT_WAITING_RUNS = sa.text("SELECT count(*) FROM broker.runs WHERE state = 'waiting'")
_READ_RUN = sa.text(f"SELECT {_COLUMNS} FROM broker.runs WHERE id = :id")  # noqa: S608 - a constant
# Lists do not show results, which are large.
_READ_NEWEST_RUNS = sa.text(f"""
    SELECT {_COLUMNS.replace(" result", " NULL AS result")} FROM broker.runs
    WHERE (CAST(:before AS bigint) IS NULL OR id < :before) AND (CAST(:kind AS text) IS NULL OR kind = :kind)
    ORDER BY id DESC LIMIT :most""")  # noqa: S608 - a constant
_INSERT_DONE = sa.text("""
    INSERT INTO broker.runs (kind, asked, subject, state, done, total, created_at, started_at, ended_at, result)
    SELECT :kind, CAST(:asked AS jsonb), :subject, 'done', :total, :total, begun, begun, ended, CAST(:result AS jsonb)
    FROM (SELECT t AS ended, t - make_interval(secs => :took_s) AS begun FROM clock_timestamp() AS t) AS clock
    RETURNING id""")
# The result without the figures of single tasks.
_READ_NEWEST_ABOUT = sa.text(f"""
    SELECT {_COLUMNS.replace(" result", " result - 'tasks' AS result")} FROM broker.runs
    WHERE state = 'done' AND kind = ANY(:kinds) AND (
        asked -> 'set' ? :key AND (SELECT count(*) FROM jsonb_object_keys(asked -> 'set')) = 1
        OR starts_with(asked -> 'ranges' ->> 0, :key || '=') AND jsonb_array_length(asked -> 'ranges') = 1)
    ORDER BY id DESC LIMIT 1""")  # noqa: S608 - a constant
_READ_NEWEST_OF_KEYS = sa.text(f"""
    SELECT {_COLUMNS.replace(" result", " result - 'tasks' AS result")} FROM broker.runs
    WHERE state = 'done' AND kind = ANY(:kinds) AND coalesce(asked -> 'rules', '{{}}') = '{{}}'
        AND asked -> 'set' ?& CAST(:keys AS text[])
        AND (SELECT count(*) FROM jsonb_object_keys(asked -> 'set')) = cardinality(CAST(:keys AS text[]))
    ORDER BY id DESC LIMIT 1""")  # noqa: S608 - a constant
_CLAIM_RUN = sa.text("""
    UPDATE broker.runs SET state = 'running', holder = :holder, started_at = clock_timestamp(),
        seen_at = clock_timestamp()
    WHERE id = (SELECT id FROM broker.runs WHERE state = 'waiting' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id""")
_SAVE_PROGRESS = sa.text("""
    UPDATE broker.runs SET done = :done, total = :total, seen_at = clock_timestamp()
    WHERE id = :id AND state = 'running' RETURNING cancel""")
_TOUCH_RUN = sa.text("""
    UPDATE broker.runs SET seen_at = clock_timestamp() WHERE id = :id AND state = 'running' RETURNING cancel""")
_END_RUN = sa.text("""
    UPDATE broker.runs SET state = :state, ended_at = clock_timestamp(), result = CAST(:result AS jsonb),
        problem = CAST(:problem AS jsonb)
    WHERE id = :id AND state = 'running'""")
_CANCEL_RUN = sa.text("""
    UPDATE broker.runs SET cancel = true, state = CASE WHEN state = 'waiting' THEN 'cancelled' ELSE state END,
        ended_at = CASE WHEN state = 'waiting' THEN clock_timestamp() ELSE ended_at END
    WHERE id = :id AND state IN ('waiting', 'running')""")
_END_LOST_RUNS = sa.text("""
    UPDATE broker.runs SET state = 'failed', ended_at = clock_timestamp(),
        problem = '{"code": "process_lost", "detail": "the process that decided it ended"}'
    WHERE state = 'running' AND seen_at < clock_timestamp() - make_interval(secs => :lost_s)""")


class RunLine(ResponseModel):
    """A summary of a run.

    Attributes:
        id: number of the run.
        kind: ``what_if``, ``sweep``, ``preview``, ``replay`` or ``simulation``.
        subject: who requested it.
        state: ``waiting``, ``running``, ``done``, ``failed`` or ``cancelled``.
        done: completed part of ``total``; null until it is known.
        created_at: time of the request.
        started_at: start of the run.
        ended_at: end of the run.
    """

    id: int
    kind: str
    subject: str
    state: State
    done: int
    total: int | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class Run(RunLine):
    """One run, as it is stored."""

    asked: Mapping[str, Any]
    holder: str | None
    cancel: bool
    result: Any
    problem: Mapping[str, Any] | None


def add(connection: sa.Connection, kind: str, request: Mapping[str, Any], subject: str) -> int:
    """Add a waiting run and return its number."""
    values = {"kind": kind, "asked": json.dumps(dict(request)), "subject": subject}
    return int(connection.execute(_INSERT_RUN, values).scalar_one())


def add_done(
    connection: sa.Connection,
    kind: str,
    request: Mapping[str, Any],
    subject: str,
    result: Mapping[str, Any],
    total: int,
    took_s: float,
) -> int:
    """Store a run that a command has done and return its number.

    Args:
        connection: to the database.
        kind: of run.
        request: the request.
        subject: who did it.
        result: as plain JSON.
        total: number of finished parts.
        took_s: seconds from its beginning until now.
    """
    values = {"kind": kind, "subject": subject, "total": total, "took_s": took_s}
    documents = {"asked": json.dumps(dict(request)), "result": json.dumps(dict(result))}
    return int(connection.execute(_INSERT_DONE, values | documents).scalar_one())


def waiting(connection: sa.Connection) -> int:
    """The number of waiting runs."""
    return int(connection.execute(_COUNT_WAITING_RUNS).scalar_one())


def find(connection: sa.Connection, run: int) -> Run | None:
    """The run of a number; None if there is none."""
    row = connection.execute(_READ_RUN, {"id": run}).one_or_none()
    return None if row is None else Run(**row._mapping)


def newest(connection: sa.Connection, most: int, before: int | None = None, kind: str | None = None) -> list[Run]:
    """Runs without results, newest first, with numbers below ``before`` and of one kind if these are given."""
    values = {"most": most, "before": before, "kind": kind}
    return [Run(**row._mapping) for row in connection.execute(_READ_NEWEST_RUNS, values)]


def newest_about(connection: sa.Connection, kinds: Sequence[str], key: str) -> Run | None:
    """The newest finished run about this tuning key alone, without the figures of single tasks."""
    row = connection.execute(_READ_NEWEST_ABOUT, {"kinds": list(kinds), "key": key}).one_or_none()
    return None if row is None else Run(**row._mapping)


def newest_of_keys(connection: sa.Connection, kinds: Sequence[str], keys: Collection[str]) -> Run | None:
    """The newest finished run about values of exactly these keys and no rule, without the figures of single tasks."""
    row = connection.execute(_READ_NEWEST_OF_KEYS, {"kinds": list(kinds), "keys": list(keys)}).one_or_none()
    return None if row is None else Run(**row._mapping)


def claim(connection: sa.Connection, holder: str) -> int | None:
    """Claim the run that has waited longest and return its number; None if none waits."""
    connection.execute(_END_LOST_RUNS, {"lost_s": LOST_AFTER_S})
    number = connection.execute(_CLAIM_RUN, {"holder": holder}).scalar()
    return None if number is None else int(number)


def note_progress(connection: sa.Connection, run: int, done: int, total: int) -> bool:
    """Store the progress of a run; return False if the run is to end."""
    cancel = connection.execute(_SAVE_PROGRESS, {"id": run, "done": done, "total": total}).scalar()
    return cancel is False


def note_alive(connection: sa.Connection, run: int) -> bool:
    """Store that the process of a run is alive; return False if the run is to end."""
    return connection.execute(_TOUCH_RUN, {"id": run}).scalar() is False


def end(connection: sa.Connection, run: int, state: State, result: Any, problem: Mapping[str, Any] | None) -> None:
    """End a running run; a run that has ended stays as it is."""
    documents = {"result": json.dumps(result), "problem": None if problem is None else json.dumps(dict(problem))}
    connection.execute(_END_RUN, {"id": run, "state": state, **documents})


def cancel(connection: sa.Connection, run: int) -> None:
    """Cancel a run: a waiting one at once, a running one soon."""
    connection.execute(_CANCEL_RUN, {"id": run})

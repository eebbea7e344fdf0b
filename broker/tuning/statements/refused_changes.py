"""Changes of the tuning that were refused for the jobs that they would have moved: noted, and read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from broker.store.query_context import Answer
from broker.tuning.statements.gdpconfig_rows import Json

Attempt = Literal["set", "canary"]

_ADD = sa.text("""
    INSERT INTO broker.gdpconfig_refusals (refused_at, editor, reason, attempt, key, vo, value, share, code, run,
        jobs_moved, jobs, most_moved)
    VALUES (:refused_at, :editor, :reason, :attempt, :key, :vo, CAST(:value AS jsonb), :share, :code, :run,
        :jobs_moved, :jobs, :most_moved)""")
_READ = sa.text("""
    SELECT refused_at, editor, reason, attempt, key, vo, value, share, code, run, jobs_moved, jobs, most_moved
    FROM broker.gdpconfig_refusals WHERE CAST(:key AS text) IS NULL OR key = :key
    ORDER BY id DESC LIMIT :most""")


class RefusedChange(Answer):
    """A change of one key that was refused.

    Attributes:
        refused_at: when.
        editor: who wanted it.
        reason: why.
        attempt: ``set``, or ``canary`` for a share of the tasks.
        key: full name of the key.
        vo: of the row that was to be set.
        value: that was not taken.
        share: of the tasks that the value was for, above 0 and at most 1.
        code: ``not_previewed``, or ``too_many_jobs_move``.
        run: whose preview counted the jobs; null where none did, or a command looked itself.
        jobs_moved: jobs of those tasks that would move; null where nobody looked lately.
        jobs: that were looked at; null likewise.
        most_moved: jobs that may move.
    """

    refused_at: datetime
    editor: str
    reason: str
    attempt: Attempt
    key: str
    vo: str
    value: Json
    share: float
    code: str
    run: int | None
    jobs_moved: int | None
    jobs: int | None
    most_moved: int


def note(connection: sa.Connection, refused: Sequence[RefusedChange]) -> None:
    """Keep changes that were refused."""
    connection.execute(_ADD, [one.model_dump() | {"value": json.dumps(one.value)} for one in refused])


def newest(connection: sa.Connection, key: str | None, most: int) -> list[RefusedChange]:
    """What was refused, of one key or of all, the newest first."""
    return [RefusedChange(**row._mapping) for row in connection.execute(_READ, {"key": key, "most": most})]

"""Tuning changes refused because of the jobs that they would have moved: stored and read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from broker.store.gdpconfig_rows import Json
from broker.store.query_context import ResponseModel

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


class RefusedChange(ResponseModel):
    """A refused change of one key.

    Attributes:
        refused_at: time of the refusal.
        editor: who requested the change.
        reason: reason for the change.
        attempt: ``set``, or ``canary`` for a share of the tasks.
        key: full name of the key.
        vo: VO of the row to set.
        value: refused value.
        share: share of the tasks for the value, above 0 and at most 1.
        code: ``not_previewed``, or ``too_many_jobs_move``.
        run: run of the preview that counted the jobs; null if there was none, or if a command made it.
        jobs_moved: number of jobs of those tasks that would move; null without a recent preview.
        jobs: number of jobs examined; null likewise.
        most_moved: maximum number of jobs that may move.
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
    """Record refused changes."""
    connection.execute(_ADD, [change.model_dump() | {"value": json.dumps(change.value)} for change in refused])


def newest(connection: sa.Connection, key: str | None, most: int) -> list[RefusedChange]:
    """The refused changes of one key or of all, newest first."""
    return [RefusedChange(**row._mapping) for row in connection.execute(_READ, {"key": key, "most": most})]

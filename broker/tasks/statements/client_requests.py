"""Submissions by the number that their client gave them: the same one again is the same task."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.errors import Refused

_CLAIM = """
INSERT INTO broker.task_requests (username, request, digest, jeditaskid, submitted_at)
VALUES (:user, :request, :digest, :task, :now) ON CONFLICT DO NOTHING"""
_READ = "SELECT digest, jeditaskid FROM broker.task_requests WHERE username = :user AND request = :request"


class RequestReused(Refused):
    """Another submission has this client request number."""


@dataclass(frozen=True)
class ClientRequest:
    """The number that a client gave to a submission, and a digest of what it submits."""

    user: str
    request: str
    digest: str


def find_task(connection: sa.Connection, request: ClientRequest) -> int | None:
    """The task that the same submission made before.

    Raises:
        RequestReused: another submission has the number.
    """
    row = connection.execute(sa.text(_READ), {"user": request.user, "request": request.request}).first()
    if row is None:
        return None
    if row.digest != request.digest:
        remedy = "nothing was submitted; take a new number for another submission"
        raise RequestReused(f"another submission has it: task {row.jeditaskid}", f"request {request.request}", remedy)
    return int(row.jeditaskid)


def claim(connection: sa.Connection, request: ClientRequest, task_id: int, now: datetime) -> bool:
    """Record the task of a submission; False if the same one, submitted at the same time, was committed first."""
    values = {"user": request.user, "request": request.request, "digest": request.digest, "task": task_id, "now": now}
    return connection.execute(sa.text(_CLAIM), values).rowcount == 1

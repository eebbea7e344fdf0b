"""Archives that panda-client has uploaded, as rows of ``broker.sandboxes``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from broker.tasks.model.sandboxes import Sandbox

# Uploads of one user wait for each other, so that together they stay within the user's limit.
_LOCK_USER = "SELECT pg_advisory_xact_lock(hashtextextended('broker.sandboxes ' || :user, 0))"
_READ_BYTES = "SELECT coalesce(sum(size_bytes), 0)::bigint FROM broker.sandboxes WHERE username = :user"
_INSERT = """
INSERT INTO broker.sandboxes (name, username, size_bytes, checksum, uploaded_at, used_at, content)
VALUES (:name, :user, :size, :checksum, :now, :now, :content) ON CONFLICT DO NOTHING"""
_IS_SAME = "SELECT username = :user AND content = :content FROM broker.sandboxes WHERE name = :name"
_FIND = """
UPDATE broker.sandboxes SET used_at = :now
WHERE name = (
    SELECT name FROM broker.sandboxes
    WHERE username = :user AND size_bytes = :size AND checksum = :checksum AND used_at > :since
    ORDER BY uploaded_at DESC LIMIT 1)
RETURNING name"""
_USE = "UPDATE broker.sandboxes SET used_at = :now WHERE username = :user AND name = ANY(:names) RETURNING name"
_READ = "SELECT content FROM broker.sandboxes WHERE name = :name"
# Thousands of jobs fetch one archive: they write at most once an hour.
_NOTE_USE = """
UPDATE broker.sandboxes SET used_at = :now
WHERE name = :name AND used_at < CAST(:now AS timestamptz) - interval '1 hour'"""


def bytes_of_user(connection: sa.Connection, user: str) -> int:
    """Bytes of all archives of a user, who can upload nothing else until the end of the transaction."""
    connection.execute(sa.text(_LOCK_USER), {"user": user})
    return int(connection.execute(sa.text(_READ_BYTES), {"user": user}).scalar_one())


def insert(connection: sa.Connection, user: str, sandbox: Sandbox, content: bytes, now: datetime) -> bool:
    """Keep an archive; False if one of that name exists already."""
    values = {"name": sandbox.name, "user": user, "size": sandbox.size_bytes, "checksum": sandbox.checksum}
    return connection.execute(sa.text(_INSERT), {**values, "content": content, "now": now}).rowcount == 1


def is_same(connection: sa.Connection, user: str, name: str, content: bytes) -> bool:
    """Whether the archive of that name is this one, of this user."""
    row = connection.execute(sa.text(_IS_SAME), {"name": name, "user": user, "content": content}).first()
    return row is not None and bool(row[0])


def find(
    connection: sa.Connection, user: str, size_bytes: int, checksum: int, since: datetime, now: datetime
) -> str | None:
    """The newest archive of a user with that content that was used since then; it counts as used now."""
    values = {"user": user, "size": size_bytes, "checksum": checksum, "since": since, "now": now}
    row = connection.execute(sa.text(_FIND), values).first()
    return None if row is None else str(row[0])


def use(connection: sa.Connection, user: str, names: Sequence[str], now: datetime) -> set[str]:
    """Record that a task of a user needs archives; returns those that exist and are the user's."""
    rows = connection.execute(sa.text(_USE), {"user": user, "names": list(names), "now": now})
    return set(rows.scalars())


def read(connection: sa.Connection, name: str, now: datetime) -> bytes | None:
    """The archive of that name, which counts as used now; None if there is none."""
    content = connection.execute(sa.text(_READ), {"name": name}).scalar_one_or_none()
    if content is not None:
        connection.execute(sa.text(_NOTE_USE), {"name": name, "now": now})
    return None if content is None else bytes(content)

"""What is kept beside PanDA's tables of jobs that came as SSS Job Objects: their names, and what has no column."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from broker.formats.sss.kept import KeptRow

Kind = Literal["job", "task"]

_ADD_IDENTITY = sa.text("""
    INSERT INTO broker.sss_identity (kind, id, job_id, group_id, global_id, fileid)
    VALUES (:kind, :id, :job_id, :group_id, :global_id, :fileid)""")
_ADD_PROPERTY = sa.text("""
    INSERT INTO broker.sss_property (kind, id, job_id, position, path, attributes, value)
    VALUES (:kind, :id, :job_id, :position, :path, CAST(:attributes AS jsonb), :value)""")
_IDENTITIES = sa.text("""
    SELECT job_id, group_id, global_id, fileid FROM broker.sss_identity
    WHERE kind = :kind AND id = :id ORDER BY fileid NULLS FIRST, job_id""")
_PROPERTIES = sa.text("""
    SELECT path, attributes, value FROM broker.sss_property
    WHERE kind = :kind AND id = :id AND (:job_id = '' OR job_id = :job_id) ORDER BY job_id, position""")


@dataclass(frozen=True)
class Identity:
    """The names of a job, or of one job of a task, where it came from."""

    job_id: str
    group_id: str | None = None
    global_id: str | None = None
    fileid: int | None = None


def add_identity(connection: sa.Connection, kind: Kind, number: int, identity: Identity) -> None:
    """Keep the names of a job or task."""
    connection.execute(
        _ADD_IDENTITY,
        {
            "kind": kind,
            "id": number,
            "job_id": identity.job_id,
            "group_id": identity.group_id,
            "global_id": identity.global_id,
            "fileid": identity.fileid,
        },
    )


def identities(connection: sa.Connection, kind: Kind, number: int) -> list[Identity]:
    """The names of a job, or of the jobs of a task in the order of their files."""
    found = connection.execute(_IDENTITIES, {"kind": kind, "id": number})
    return [Identity(row.job_id, row.group_id, row.global_id, row.fileid) for row in found]


def add_properties(
    connection: sa.Connection, kind: Kind, number: int, rows: Iterable[KeptRow], job_id: str = ""
) -> int:
    """Keep what has no column; how many elements that were."""
    values = [
        {
            "kind": kind,
            "id": number,
            "job_id": job_id,
            "position": position,
            "path": row.path,
            "attributes": json.dumps(row.attributes),
            "value": row.text,
        }
        for position, row in enumerate(rows)
    ]
    if values:
        connection.execute(_ADD_PROPERTY, values)
    return len(values)


def properties(connection: sa.Connection, kind: Kind, number: int, job_id: str = "") -> Sequence[KeptRow]:
    """What was kept of a job or task, in the order of the document."""
    found = connection.execute(_PROPERTIES, {"kind": kind, "id": number, "job_id": job_id})
    return [KeptRow(row.path, dict(row.attributes), row.value) for row in found]

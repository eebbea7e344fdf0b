"""Rows kept alongside PanDA's tables for jobs that came as SSS Job Objects: their names, and what has no column."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from broker.formats.model.sss.exported import Record
from broker.formats.model.sss.from_panda import ElementRow

SubmittedKind = Literal["job", "task"]

_ADD_IDENTITY = sa.text("""
    INSERT INTO broker.sss_identity (kind, id, job_id, group_id, global_id, fileid, first_part, written)
    VALUES (:kind, :id, :job_id, :group_id, :global_id, :fileid, :first_part, CAST(:written AS jsonb))""")
_ADD_PROPERTY = sa.text("""
    INSERT INTO broker.sss_property (kind, id, job_id, position, path, attributes, value)
    VALUES (:kind, :id, :job_id, :position, :path, CAST(:attributes AS jsonb), :value)""")
_READ_IDENTITIES = sa.text("""
    SELECT job_id, group_id, global_id, fileid FROM broker.sss_identity
    WHERE kind = :kind AND id = :id ORDER BY fileid NULLS FIRST, job_id""")
_READ_RECORDS = sa.text("""
    SELECT id, job_id, first_part, written FROM broker.sss_identity
    WHERE kind = :kind AND id = ANY(:ids) AND fileid IS NULL""")
_READ_ALL_PROPERTIES = sa.text("""
    SELECT id, path, attributes, value FROM broker.sss_property
    WHERE kind = :kind AND id = ANY(:ids) AND job_id = '' ORDER BY id, position""")
_READ_PARTS = sa.text("""
    SELECT part.id FROM broker.sss_identity AS one
    JOIN broker.sss_identity AS part ON part.first_part = one.first_part AND part.kind = 'job'
    WHERE one.kind = 'job' AND one.id = :id ORDER BY part.id""")
_READ_PROPERTIES = sa.text("""
    SELECT path, attributes, value FROM broker.sss_property
    WHERE kind = :kind AND id = :id AND (:job_id = '' OR job_id = :job_id) ORDER BY job_id, position""")


@dataclass(frozen=True)
class Identity:
    """The names of a job, or of one job of a task, in the document it came from."""

    job_id: str
    group_id: str | None = None
    global_id: str | None = None
    fileid: int | None = None


@dataclass(frozen=True)
class ImportedRows:
    """A row as it was imported, and which row is the first part of its job."""

    rows: Sequence[ElementRow]
    first_part: int | None = None


def add_identity(
    connection: sa.Connection, kind: SubmittedKind, number: int, identity: Identity, written: ImportedRows | None = None
) -> None:
    """Keep the names of a job or task and, for an imported one, its row at that time."""
    rows = None if written is None else [[row.path, row.attributes, row.text] for row in written.rows]
    connection.execute(
        _ADD_IDENTITY,
        {
            "kind": kind,
            "id": number,
            "job_id": identity.job_id,
            "group_id": identity.group_id,
            "global_id": identity.global_id,
            "fileid": identity.fileid,
            "first_part": None if written is None else written.first_part,
            "written": None if rows is None else json.dumps(rows),
        },
    )


def identities(connection: sa.Connection, kind: SubmittedKind, number: int) -> list[Identity]:
    """The names of a job, or of the jobs of a task in the order of their files."""
    rows = connection.execute(_READ_IDENTITIES, {"kind": kind, "id": number})
    return [Identity(row.job_id, row.group_id, row.global_id, row.fileid) for row in rows]


def add_properties(
    connection: sa.Connection, kind: SubmittedKind, number: int, rows: Iterable[ElementRow], job_id: str = ""
) -> int:
    """Keep what has no column; returns the number of elements."""
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


def properties(connection: sa.Connection, kind: SubmittedKind, number: int, job_id: str = "") -> Sequence[ElementRow]:
    """The stored elements of a job or task, in the order of the document."""
    rows = connection.execute(_READ_PROPERTIES, {"kind": kind, "id": number, "job_id": job_id})
    return [ElementRow(row.path, dict(row.attributes), row.value) for row in rows]


def records(connection: sa.Connection, kind: SubmittedKind, numbers: Sequence[int]) -> dict[int, Record]:
    """The documents that jobs or tasks were submitted as, by id; nothing for those submitted in another way."""
    values = {"kind": kind, "ids": list(numbers)}
    rows_by_id: dict[int, list[ElementRow]] = {}
    for row in connection.execute(_READ_ALL_PROPERTIES, values):
        rows_by_id.setdefault(row.id, []).append(ElementRow(row.path, dict(row.attributes), row.value))
    return {
        row.id: Record(
            tuple(rows_by_id.get(row.id, ())),
            tuple(ElementRow(path, attributes, text) for path, attributes, text in row.written or ()),
            row.job_id or "",
            row.first_part,
        )
        for row in connection.execute(_READ_RECORDS, values)
    }


def parts(connection: sa.Connection, pandaid: int) -> list[int]:
    """The jobs that represent one job of a document, one for each task group; the job itself if it is the whole."""
    return [int(row.id) for row in connection.execute(_READ_PARTS, {"id": pandaid})] or [pandaid]

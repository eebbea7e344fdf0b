"""Datasets that brokerage needs, when each was requested from Rucio, and how the answers update the catalogue."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.feeds.model.rucio.answers import FOUND, DatasetReply, Did, Needed, Replica, RequestRecord
from broker.store.connection.array_transfer import array_of_texts
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.work.chunks import INPUT_FAMILIES
from broker.work.input_files import PSEUDO_NAMES, name_without_scope, scope_and_name

#: Statuses of tasks whose input is needed, in the order in which they are brokered.
STATUSES = ("assigning", "ready", "scouting", "running", "pending")
_DIDS = "unnest(CAST(:scopes AS text[]), CAST(:names AS text[])) AS a (scope, name)"


@dataclass(frozen=True)
class Request:
    """The stored request for a DID.

    Attributes:
        record: its schedule, and the digest of the last answer.
        replicas_digest: digest of the replica rows in the last answer.
        settled: whether the DID is closed, so that its metadata no longer changes.
        outcome: ``found`` or ``not_found``; None before the first answer.
    """

    record: RequestRecord
    replicas_digest: str | None = None
    settled: bool = False
    outcome: str | None = None


def needed_dids(connection: sa.Connection, catalogue: TableCatalogue) -> list[Needed]:
    """The input of tasks that need brokerage and have ready files, most urgent first, then its constituents."""
    tasks = catalogue.source("jedi_tasks", ("jeditaskid", "status", "currentpriority"))
    datasets = catalogue.source("jedi_datasets", ("jeditaskid", "datasetid", "datasetname", "type"))
    files = catalogue.source("jedi_dataset_contents", ("jeditaskid", "datasetid", "status"))
    query = sa.text(f"""
        SELECT d.datasetname FROM {tasks} AS t JOIN {datasets} AS d USING (jeditaskid)
        WHERE t.status = ANY(:statuses) AND d.type = ANY(:types) AND EXISTS (
            SELECT FROM {files} AS f
            WHERE f.jeditaskid = d.jeditaskid AND f.datasetid = d.datasetid AND f.status = 'ready')
        ORDER BY array_position(:statuses, t.status::text), t.currentpriority DESC NULLS LAST, t.jeditaskid
        """)  # noqa: S608 - names of tables and columns
    rows = connection.execute(query, {"statuses": list(STATUSES), "types": list(INPUT_FAMILIES)})
    order: dict[Did, int] = {}
    for (name,) in rows:
        if name and name_without_scope(name) not in PSEUDO_NAMES:
            order.setdefault(scope_and_name(name), len(order))
    needed = [Needed(did, urgency) for did, urgency in order.items()]
    return needed + _constituents(connection, order)


def _constituents(connection: sa.Connection, order: Mapping[Did, int]) -> list[Needed]:
    query = sa.text(f"""
        SELECT c.scope, c.name, c.child_scope, c.child_name
        FROM {_DIDS} JOIN broker.container_contents AS c ON c.scope = a.scope AND c.name = a.name
        """)  # noqa: S608 - a constant
    rows = connection.execute(query, _pairs(order))
    return [Needed((child_scope, child), order[(scope, name)]) for scope, name, child_scope, child in rows]


def requests_of(connection: sa.Connection, dids: Iterable[Did]) -> dict[Did, Request]:
    """The stored requests for DIDs."""
    query = sa.text(f"""
        SELECT r.* FROM {_DIDS} JOIN broker.replica_requests AS r ON r.scope = a.scope AND r.name = a.name
        """)  # noqa: S608 - a constant
    requests = {}
    for row in connection.execute(query, _pairs(dict.fromkeys(dids))):
        did = (row.scope, row.name)
        record = RequestRecord(did, row.next_at, row.interval_s, row.digest, row.failures)
        requests[did] = Request(record, row.replicas_digest, row.settled, row.outcome)
    return requests


def unanswered(connection: sa.Connection, dids: Sequence[Did]) -> frozenset[int]:
    """Positions of the DIDs without an answer from Rucio yet; empty if Rucio does not feed the catalogue."""
    if connection.scalar(sa.text("SELECT NOT EXISTS (SELECT FROM broker.replica_requests)")):
        return frozenset()
    query = sa.text(f"""
        SELECT a.scope, a.name FROM {_DIDS} JOIN broker.replica_requests AS r ON r.scope = a.scope AND r.name = a.name
        WHERE r.outcome IS NOT NULL""")  # noqa: S608 - a constant
    answered = {(row[0], row[1]) for row in connection.execute(query, _pairs(dict.fromkeys(dids)))}
    return frozenset(position for position, did in enumerate(dids) if did not in answered)


def write_failure(connection: sa.Connection, record: RequestRecord) -> None:
    """Record a request without an answer; the earlier answer stays."""
    connection.execute(_WRITE_QUESTION, _record_values(record))


def write_answer(
    connection: sa.Connection,
    answer: DatasetReply,
    record: RequestRecord,
    replicas_digest: str,
    now: datetime,
    *,
    changed: bool,
) -> None:
    """Record an answer and, if it ``changed``, replace the catalogue's data about the DID by it."""
    settled = answer.outcome == FOUND and answer.is_open is False
    values = {
        "outcome": answer.outcome,
        "replicas_digest": replicas_digest,
        "settled": settled,
        "now": now,
        "changed": changed,
        "scope": record.did[0],
        "name": record.did[1],
    }
    connection.execute(_WRITE_QUESTION, _record_values(record))
    connection.execute(_WRITE_ANSWER, values)
    if changed:
        _replace(connection, answer)


def write_unchanged(connection: sa.Connection, records: Sequence[RequestRecord], now: datetime) -> None:
    """Record answers that equal the previous ones."""
    values = {
        "scopes": [record.did[0] for record in records],
        "names": [record.did[1] for record in records],
        "next_at": [record.next_at for record in records],
        "intervals": [record.interval_s for record in records],
        "now": now,
    }
    if records:
        connection.execute(_WRITE_UNCHANGED_ANSWERS, values)


_WRITE_QUESTION = sa.text("""
    INSERT INTO broker.replica_requests (scope, name, next_at, interval_s, failures, digest)
    VALUES (:scope, :name, :next_at, :interval_s, :failures, :digest)
    ON CONFLICT (scope, name) DO UPDATE SET next_at = excluded.next_at, interval_s = excluded.interval_s,
        failures = excluded.failures, digest = excluded.digest""")
_WRITE_ANSWER = sa.text("""
    UPDATE broker.replica_requests SET outcome = :outcome, replicas_digest = :replicas_digest, settled = :settled,
        answered_at = :now, changed_at = CASE WHEN :changed THEN :now ELSE changed_at END
    WHERE scope = :scope AND name = :name""")
_WRITE_UNCHANGED_ANSWERS = sa.text("""
    UPDATE broker.replica_requests AS r
    SET answered_at = :now, next_at = a.next_at, interval_s = a.interval_s, failures = 0
    FROM unnest(CAST(:scopes AS text[]), CAST(:names AS text[]), CAST(:next_at AS timestamptz[]),
                CAST(:intervals AS float8[])) AS a (scope, name, next_at, interval_s)
    WHERE r.scope = a.scope AND r.name = a.name""")


def _record_values(record: RequestRecord) -> dict[str, Any]:
    return {
        "scope": record.did[0],
        "name": record.did[1],
        "next_at": record.next_at,
        "interval_s": record.interval_s,
        "failures": record.failures,
        "digest": record.digest,
    }


def _replace(connection: sa.Connection, answer: DatasetReply) -> None:
    scope, name = answer.did
    key = {"scope": scope, "name": name}
    for table in ("dataset_replicas", "dataset_metadata", "container_contents"):
        connection.execute(sa.text(f"DELETE FROM broker.{table} WHERE scope = :scope AND name = :name"), key)  # noqa: S608
    _replace_files(connection, answer)
    if answer.outcome != FOUND:
        return
    rules = None if answer.rules is None else json.dumps(list(answer.rules))
    about = {"did_type": answer.did_type, "length": answer.length, "is_open": answer.is_open, "rules": rules}
    connection.execute(
        sa.text("""
            INSERT INTO broker.dataset_metadata (scope, name, did_type, length, is_open, rule_groupings)
            VALUES (:scope, :name, :did_type, :length, :is_open, CAST(:rules AS jsonb))"""),
        key | about,
    )
    _many(
        connection,
        f"dataset_replicas (scope, name, {', '.join(field.name for field in dataclasses.fields(Replica))})",
        [(scope, name, *dataclasses.astuple(replica)) for replica in answer.replicas],
    )
    _many(
        connection,
        "container_contents (scope, name, child_scope, child_name)",
        [(scope, name, *child) for child in answer.contents],
    )


def _replace_files(connection: sa.Connection, answer: DatasetReply) -> None:
    """Replace the stored replicas of single files of this DID."""
    scope, name = answer.did
    before = connection.scalar(
        sa.text("SELECT file_names FROM broker.replica_requests WHERE scope = :scope AND name = :name"),
        {"scope": scope, "name": name},
    )
    old = {(file[0], file[1]) for file in before or ()} | set(answer.file_names)
    if old:
        connection.execute(
            sa.text(f"DELETE FROM broker.file_replicas AS f USING {_DIDS} WHERE f.scope = a.scope AND f.name = a.name"),  # noqa: S608
            _pairs(dict.fromkeys(sorted(old))),
        )
    _many(connection, "file_replicas (scope, name, rse)", sorted(answer.files or ()))
    connection.execute(
        sa.text(
            "UPDATE broker.replica_requests SET file_names = CAST(:files AS jsonb) "
            "WHERE scope = :scope AND name = :name"
        ),
        {"scope": scope, "name": name, "files": json.dumps(answer.file_names) if answer.file_names else None},
    )


def _many(connection: sa.Connection, target: str, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:
        placeholders = ", ".join(["%s"] * len(rows[0]))
        with Database.raw(connection).cursor() as cursor:
            cursor.executemany(f"INSERT INTO broker.{target} VALUES ({placeholders})".encode(), rows)  # noqa: S608


def _pairs(dids: Mapping[Did, Any]) -> dict[str, str]:
    return {"scopes": array_of_texts([scope for scope, _ in dids]), "names": array_of_texts([name for _, name in dids])}

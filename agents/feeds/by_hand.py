"""Imports by hand from files: Rucio's answers into the replica catalogue, and Harvester's reports of workers.

Both write as the agents of these feeds would. Neither has a period of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic import Field

from agents.feeds.importing import Limits, Plan, PlannedTable, require_standalone, run_import
from agents.feeds.obtaining import FeedOptions, obtain
from agents.service.base import Agent, CycleContext, CycleReport
from broker.domain.work import DroppedRow
from broker.feeds.model.rows import RowChange, TableChanges
from broker.feeds.model.rucio import answers as schedule
from broker.feeds.model.rucio.answers import DatasetReply, RawAnswer, read_answer
from broker.feeds.model.rucio.questions import digest_of
from broker.feeds.model.worker_statistics import worker_table
from broker.fetching.documents import Document, DocumentRefused
from broker.store.reads import replica_requests
from broker.store.snapshots import feed_documents

DATASETS = "datasets"


class ReplicaFileOptions(FeedOptions):
    """Options of the import: the ``address`` or path of the file."""

    address: str = ""
    max_shrink: float = 1.0


class ReplicaImport(Agent[ReplicaFileOptions]):
    """Writes the replicas of the datasets in a file; the records of other datasets stay."""

    name = "rucio_replicas"
    title = "replicas, from a file"
    options_type = ReplicaFileOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Read, check and write the answers once.

        Raises:
            FeedAlarm: the file was refused.
        """
        obtained = obtain(
            context, self.name, {DATASETS: self.options.address}, self.options, records_of, allow_shrink=True
        )
        documents = {DATASETS: obtained[DATASETS]}
        replica_file = documents[DATASETS]
        document = replica_file.document if replica_file.good is not None else None
        dropped_rows: list[DroppedRow] = []
        answers = [] if document is None else [_answer(raw, dropped_rows) for raw in raw_answers(document)]

        def write(connection: sa.Connection, writes: bool) -> tuple[TableChanges, ...]:
            if writes and answers:
                feed_documents.note_checked(connection, self.name, "replicas", replica_file.source, context.now)
            return (_write_answers(connection, answers, context.now, writes=writes),)

        limits = Limits(1.0, self.options.max_left_out)
        return run_import(context, self.name, documents, lambda _: Plan((), write, {}, dropped_rows), limits)


def _write_answers(
    connection: sa.Connection, answers: list[tuple[DatasetReply, str]], now: datetime, *, writes: bool
) -> TableChanges:
    """Write answers, each with the digest of its replicas, to the catalogue; return the changes."""
    requests = replica_requests.requests_of(connection, (answer.did for answer, _ in answers))
    changed: list[RowChange] = []
    for answer, replicas_digest in answers:
        before = requests[answer.did].record if answer.did in requests else None
        digest = answer.digest()
        is_new = before is None or before.digest != digest
        if is_new:
            changed.append(RowChange(answer.did, "added" if before is None else "changed", {}))
        if writes:
            record = schedule.after_answer(answer.did, before, digest, now, schedule.PACE)
            replica_requests.write_answer(connection, answer, record, replicas_digest, now, changed=is_new)
    return TableChanges("dataset_replicas", tuple(changed), len(answers) - len(changed))


def records_of(document: Document) -> int:
    """Return the number of datasets in the file.

    Raises:
        DocumentRefused: the file does not have the required shape.
    """
    return len(raw_answers(document))


def raw_answers(document: Document) -> list[RawAnswer]:
    """Return the answers in the file.

    Raises:
        DocumentRefused: the file does not have the required shape.
    """
    records = document.records().get(DATASETS)
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise DocumentRefused("wrong_type", f"no list under {DATASETS}", document.name)
    return [_raw(record, document) for record in records]


def _raw(record: dict[str, Any], document: Document) -> RawAnswer:
    scope, name = record.get("scope"), record.get("name")
    if not (isinstance(scope, str) and scope and isinstance(name, str) and name) or document.fault_of(record):
        raise DocumentRefused("wrong_type", f"a dataset without scope and name: {str(name)[:80]}", document.name)
    metadata = record.get("metadata")
    rows: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for key in ("replicas", "contents", "virtual", "files"):
        value = record.get(key) or []
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            raise DocumentRefused("wrong_type", f"{name[:80]}: {key} is no list of objects", document.name)
        rows[key] = tuple(value)
    rules = record.get("rules")
    return RawAnswer(
        (scope, name),
        metadata if isinstance(metadata, dict) else None,
        rows["replicas"],
        rows["contents"],
        rows["virtual"],
        rows["files"] if "files" in record else None,
        tuple(str(rule) for rule in rules) if isinstance(rules, list) else None,
    )


def _answer(raw: RawAnswer, dropped_rows: list[DroppedRow]) -> tuple[DatasetReply, str]:
    answer = read_answer(raw, {})
    dropped_rows += [DroppedRow(DATASETS, row.identifier, row.code, row.detail) for row in answer.dropped_rows]
    return answer, digest_of(list(raw.replicas))


STATISTICS = "statistics"


class WorkersOptions(FeedOptions):
    """Options of the import.

    Attributes:
        documents: addresses or paths by name.
    """

    documents: dict[str, str] = Field(default_factory=dict)
    max_shrink: float = 1.0


class WorkersImport(Agent[WorkersOptions]):
    """Rewrites the rows of ``harvester_worker_stats`` for the queues in the reports."""

    name = "workers"
    title = "worker statistics of Harvester"
    options_type = WorkersOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Read, check, map and write the reports once.

        Raises:
            Refused: PanDA's own table would be written.
            FeedAlarm: a document was refused.
        """
        require_standalone(context, self.name)
        obtained = obtain(context, self.name, self.options.documents, self.options, _reports, allow_shrink=True)
        reports = {name: report for name, report in obtained.items() if name in self.options.documents}
        documents = [
            report.document for report in reports.values() if report.document is not None and report.good is not None
        ]

        def plan(connection: sa.Connection) -> Plan:
            tables = []
            for document in documents:
                table = worker_table(document, context.now)
                tables.append(PlannedTable(table, firsts=sorted({key[0] for key in table.about or ()})))
            return Plan(tables, note)

        def note(connection: sa.Connection, writes: bool) -> tuple[TableChanges, ...]:
            if not (writes and documents):
                return ()
            source = ", ".join(report.source for report in reports.values())[:1000]
            feed_documents.note_checked(connection, self.name, STATISTICS, source, context.now)
            return ()

        return run_import(context, self.name, reports, plan, Limits(1.0, self.options.max_left_out))


def _reports(document: Document) -> int:
    return len(document.content) if isinstance(document.content, list) else 1

"""Input that is not whole yet: what each dataset waits for, the files its producer has written, and starting tasks.

See the table ``broker.task_input_feeds`` for the states of a chain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from broker.domain.decisions import RETRY_AFTER
from broker.matching.patterns import SafePattern
from broker.store.connection.tables import Names
from broker.tasks.model.task import InputFile, InputPlan, RefinedTask
from broker.tasks.statements.contents import FileTerms
from broker.tasks.statements.refined_tasks import REGISTERED, DatasetRow

FILES_READ_AT_ONCE = 20_000
_INSERT_FEED = """
INSERT INTO broker.task_input_feeds (jeditaskid, datasetid, scope, name, source, needs_parent, may_grow, included,
    excluded, skipped_files, most_files, most_events, events_a_file, maxattempt, maxfailure, first_event, next_look_at)
VALUES (:task, :dataset, :scope, :name, :source, :needs_parent, :may_grow, CAST(:included AS jsonb),
    CAST(:excluded AS jsonb), :skipped, :most_files, :most_events, :events_a_file, :maxattempt, :maxfailure,
    :first_event, :now)"""
_READ_FEEDS = """
SELECT feed.*, dataset.nfiles AS files, dataset.nevents AS events, dataset.masterid IS NULL AS is_master,
    dataset.datasetname, task.status AS task_status, task.parent_tid, parent.status AS parent_status
FROM broker.task_input_feeds AS feed
JOIN {panda}.jedi_tasks AS task ON task.jeditaskid = feed.jeditaskid
JOIN {panda}.jedi_datasets AS dataset ON dataset.jeditaskid = feed.jeditaskid AND dataset.datasetid = feed.datasetid
LEFT JOIN {panda}.jedi_tasks AS parent ON parent.jeditaskid = task.parent_tid AND parent.jeditaskid <> task.jeditaskid
WHERE feed.next_look_at <= :now
  AND task.status NOT IN ('aborting', 'aborted', 'finishing', 'done', 'finished', 'failed', 'broken')
  AND (CAST(:tasks AS bigint[]) IS NULL OR feed.jeditaskid = ANY(CAST(:tasks AS bigint[])))
ORDER BY feed.next_look_at, feed.jeditaskid, feed.datasetid LIMIT :most"""
_LOCK_FEED = """
SELECT true FROM broker.task_input_feeds WHERE jeditaskid = :task AND datasetid = :dataset FOR UPDATE SKIP LOCKED"""
# The newest dataset of that name counts; the name may include the scope or not.
_READ_PRODUCER = """
SELECT dataset.jeditaskid, dataset.datasetid, dataset.state = 'closed' AS closed, task.status
FROM {panda}.jedi_datasets AS dataset JOIN {panda}.jedi_tasks AS task USING (jeditaskid)
WHERE dataset.type IN ('output', 'log') AND dataset.datasetname = ANY(:names)
ORDER BY dataset.datasetid DESC LIMIT 1"""
_READ_WRITTEN = """
SELECT file.fileid, file.lfn, file.scope, file.fsize, file.nevents, file.checksum, file.guid
FROM {panda}.jedi_dataset_contents AS file
WHERE file.jeditaskid = :producer AND file.datasetid = :produced AND file.status = 'finished' AND file.fileid > :after
  AND NOT EXISTS (SELECT FROM {panda}.jedi_dataset_contents AS taken
                  WHERE taken.jeditaskid = :task AND taken.datasetid = :dataset AND taken.lfn = file.lfn)
ORDER BY file.fileid LIMIT :most"""
_READ_NAMES = "SELECT lfn FROM {panda}.jedi_dataset_contents WHERE jeditaskid = :task AND datasetid = :dataset"
_POSTPONE = """
UPDATE broker.task_input_feeds SET next_look_at = :next, reason = :reason
WHERE jeditaskid = :task AND datasetid = :dataset"""
_FORGET = "DELETE FROM broker.task_input_feeds WHERE jeditaskid = :task AND datasetid = :dataset"
# A task starts when none of its datasets waits for its end: all are whole, or may grow and have a first file.
_START = """
WITH started AS (
    UPDATE {panda}.jedi_tasks AS task
    SET status = CASE WHEN task.nucleus IS NULL AND task.prodsourcelabel NOT IN ('user', 'panda') THEN 'assigning'
            ELSE 'ready' END,
        modificationtime = CASE WHEN task.nucleus IS NULL AND task.prodsourcelabel NOT IN ('user', 'panda')
            THEN CAST(:due AS timestamp) ELSE :now END,
        statechangetime = :now, errordialog = NULL
    WHERE task.jeditaskid = ANY(:tasks) AND task.status = 'registered'
      AND NOT EXISTS (
        SELECT FROM broker.task_input_feeds AS feed
        JOIN {panda}.jedi_datasets AS dataset USING (jeditaskid, datasetid)
        WHERE feed.jeditaskid = task.jeditaskid AND NOT (feed.may_grow AND dataset.nfiles > 0))
    RETURNING task.jeditaskid, task.status
)
INSERT INTO {panda}.tasks_statuslog (jeditaskid, modificationtime, status, attemptnr, reason, modificationhost)
SELECT jeditaskid, :now, status, 1, 'its input is there', 'gridbroker' FROM started RETURNING jeditaskid"""
_BREAK = """
WITH broken AS (
    UPDATE {panda}.jedi_tasks SET status = 'broken', superstatus = 'broken', oldstatus = NULL, errordialog = :reason,
        statechangetime = :now, modificationtime = :now, endtime = :now
    WHERE jeditaskid = :task AND status = 'registered' RETURNING jeditaskid
), outputs AS (
    UPDATE {panda}.jedi_datasets AS dataset SET status = 'broken', state = 'closed', modificationtime = :now
    FROM broken WHERE dataset.jeditaskid = broken.jeditaskid AND dataset.type IN ('output', 'log')
), forgotten AS (
    DELETE FROM broker.task_input_feeds AS feed USING broken WHERE feed.jeditaskid = broken.jeditaskid
)
INSERT INTO {panda}.tasks_statuslog (jeditaskid, modificationtime, status, attemptnr, reason, modificationhost)
SELECT jeditaskid, :now, 'broken', 1, left(:reason, 255), 'gridbroker' FROM broken"""


@dataclass(frozen=True)
class Feed:
    """An input dataset that is not whole yet; see the table.

    Attributes:
        is_master: its files determine the jobs.
        registered: the task has not started.
        parent_status: the status of the parent; None without a parent.
    """

    jeditaskid: int
    datasetid: int
    scope: str
    name: str
    datasetname: str
    source: str
    needs_parent: bool
    may_grow: bool
    plan: InputPlan
    terms: FileTerms
    skipped: int
    most_files: int | None
    most_events: int | None
    events_a_file: int | None
    files: int
    events: int
    is_master: bool
    registered: bool
    parent: int | None
    parent_status: str | None


@dataclass(frozen=True)
class Producer:
    """The task of this installation that writes a dataset."""

    jeditaskid: int
    datasetid: int
    closed: bool
    status: str


def insert_feed(
    connection: sa.Connection,
    task_id: int,
    row: DatasetRow,
    did: tuple[str, str],
    source: str,
    task: RefinedTask,
    needs_parent: bool,
    now: datetime,
) -> None:
    """Record that the contents of a dataset are to be read later."""
    plan = row.plan
    values = {
        "task": task_id, "dataset": row.datasetid, "scope": did[0], "name": did[1], "source": source,
        "needs_parent": needs_parent, "may_grow": task.until_closed or task.starts_with_parent,
        "included": json.dumps([pattern.pattern for pattern in plan.include]),
        "excluded": json.dumps([pattern.pattern for pattern in plan.exclude]), "skipped": plan.offset,
        "most_files": task.most_files if plan.is_master else plan.wanted,
        "most_events": task.most_events if plan.is_master else None, "events_a_file": task.events_a_file,
        "maxattempt": task.max_attempt if plan.is_master else None,
        "maxfailure": task.max_failure if plan.is_master else None, "first_event": task.event_offset, "now": now,
    }  # fmt: skip
    connection.execute(sa.text(_INSERT_FEED), values)


def due_feeds(
    connection: sa.Connection, names: Names, now: datetime, most: int, tasks: Sequence[int] | None = None
) -> list[Feed]:
    """The datasets to check, those that have waited longest first."""
    values = {"now": now, "tasks": None if tasks is None else list(tasks), "most": most}
    return [_feed(row._mapping) for row in connection.execute(sa.text(names.sql(_READ_FEEDS)), values)]


def _feed(row: Any) -> Feed:
    plan = InputPlan(
        "",
        row["datasetname"],
        "",
        is_master=row["is_master"],
        include=tuple(SafePattern(pattern, ignore_case=False) for pattern in row["included"]),
        exclude=tuple(SafePattern(pattern, ignore_case=False) for pattern in row["excluded"]),
    )
    first_event = row["first_event"] + (row["events"] or 0)
    terms = FileTerms(row["jeditaskid"], row["datasetid"], "input", row["maxattempt"], row["maxfailure"], first_event)
    copied = ("jeditaskid", "datasetid", "scope", "name", "datasetname", "source", "needs_parent", "may_grow")
    return Feed(
        **{name: row[name] for name in copied},
        plan=plan,
        terms=terms,
        skipped=row["skipped_files"],
        most_files=row["most_files"],
        most_events=row["most_events"],
        events_a_file=row["events_a_file"],
        files=row["files"] or 0,
        events=row["events"] or 0,
        is_master=row["is_master"],
        registered=row["task_status"] == REGISTERED,
        parent=None if row["parent_tid"] == row["jeditaskid"] else row["parent_tid"],
        parent_status=row["parent_status"],
    )


def lock_feed(connection: sa.Connection, feed: Feed) -> bool:
    """Lock this dataset until the end of the transaction; False if another process is reading it."""
    return bool(connection.scalar(sa.text(_LOCK_FEED), {"task": feed.jeditaskid, "dataset": feed.datasetid}))


def find_producer(connection: sa.Connection, names: Names, did: tuple[str, str]) -> Producer | None:
    """The task of this installation that writes a dataset; None when there is none."""
    values = {"names": [did[1], ":".join(did)]}
    row = connection.execute(sa.text(names.sql(_READ_PRODUCER)), values).first()
    return None if row is None else Producer(*row)


def written_files(connection: sa.Connection, names: Names, producer: Producer, feed: Feed) -> Iterator[InputFile]:
    """The files that the producer has finished and the feed has not taken, read in batches."""
    after = 0
    while True:
        values = {
            "producer": producer.jeditaskid, "produced": producer.datasetid, "after": after, "task": feed.jeditaskid,
            "dataset": feed.datasetid, "most": FILES_READ_AT_ONCE,
        }  # fmt: skip
        rows = connection.execute(sa.text(names.sql(_READ_WRITTEN)), values).all()
        for row in rows:
            yield InputFile(row.lfn, row.scope, row.fsize, row.nevents, row.checksum, row.guid)
        if len(rows) < FILES_READ_AT_ONCE:
            return
        after = int(rows[-1].fileid)


def names_taken(connection: sa.Connection, names: Names, feed: Feed) -> set[str]:
    """The names of the files that the feed has taken."""
    values = {"task": feed.jeditaskid, "dataset": feed.datasetid}
    return set(connection.execute(sa.text(names.sql(_READ_NAMES)), values).scalars()) if feed.files else set()


def postpone(connection: sa.Connection, feed: Feed, reason: str, now: datetime, wait: timedelta) -> None:
    """Have the dataset checked again later, and keep the reason."""
    values = {"task": feed.jeditaskid, "dataset": feed.datasetid, "next": now + wait, "reason": reason}
    connection.execute(sa.text(_POSTPONE), values)


def forget(connection: sa.Connection, feed: Feed) -> None:
    """Forget a dataset that is whole: it is not checked again."""
    connection.execute(sa.text(_FORGET), {"task": feed.jeditaskid, "dataset": feed.datasetid})


def start(connection: sa.Connection, names: Names, tasks: Sequence[int], now: datetime) -> list[int]:
    """Start the tasks whose input is there, and return them. ``now``: naive UTC."""
    values = {"tasks": list(tasks), "now": now, "due": now - 2 * RETRY_AFTER}
    return list(connection.execute(sa.text(names.sql(_START)), values).scalars())


def break_task(connection: sa.Connection, names: Names, task_id: int, reason: str, now: datetime) -> None:
    """End a task that cannot start. ``now``: naive UTC."""
    connection.execute(sa.text(names.sql(_BREAK)), {"task": task_id, "reason": reason[:500], "now": now})

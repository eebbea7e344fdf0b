"""Tasks that wait for Rucio's answer about their input, and for which it has come since they were last checked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from broker.domain.decisions import RETRY_AFTER
from broker.domain.instants import naive
from broker.engine.job.input_faults import INPUT_REASONS
from broker.store.connection.array_transfer import array_of_texts
from broker.store.connection.tables import Names
from broker.store.writes.job_row_sql import HOST
from broker.store.writes.job_rows import WORKING_STATUSES
from broker.work.chunks import INPUT_FAMILIES
from broker.work.input_files import scope_and_name

LONGEST_CYCLE = timedelta(seconds=120)
"""A cycle may have read the catalogue this long before its decision was written."""

_READ_WAITING = """
SELECT task.jeditaskid, dataset.datasetname, max(state.last_seen_at) AS seen_at
FROM {broker}.chunk_states AS state
JOIN {panda}.jedi_tasks AS task USING (jeditaskid)
JOIN {panda}.jedi_datasets AS dataset USING (jeditaskid)
WHERE (state.reason = ANY(:reasons) OR state.main_reason = ANY(:reasons)) AND dataset.type = ANY(:types)
  AND (task.status = 'pending' AND task.oldstatus = ANY(:working) OR task.status = 'assigning')
GROUP BY 1, 2 ORDER BY 1, 2"""
# The newest answer counts, whether about a container itself or about one of its constituents.
_READ_ANSWERED = """
SELECT asked.number, max(request.changed_at) AS changed_at
FROM unnest(CAST(:scopes AS text[]), CAST(:names AS text[])) WITH ORDINALITY AS asked (scope, name, number)
LEFT JOIN {broker}.container_contents AS part ON part.scope = asked.scope AND part.name = asked.name
JOIN {broker}.replica_requests AS request
    ON request.scope = asked.scope AND request.name = asked.name
    OR request.scope = part.child_scope AND request.name = part.child_name
WHERE request.outcome = 'found' GROUP BY 1"""
_GO_ON = """
WITH due AS (
    SELECT jeditaskid, status AS was FROM {panda}.jedi_tasks
    WHERE jeditaskid = ANY(:tasks) AND (status = 'pending' AND oldstatus = ANY(:working) OR status = 'assigning')
    ORDER BY jeditaskid FOR NO KEY UPDATE SKIP LOCKED
), woken AS (
    UPDATE {panda}.jedi_tasks AS task
    SET status = CASE due.was WHEN 'pending' THEN task.oldstatus ELSE task.status END,
        oldstatus = CASE due.was WHEN 'pending' THEN NULL ELSE task.oldstatus END,
        statechangetime = CASE due.was WHEN 'pending' THEN :now ELSE task.statechangetime END,
        modificationtime = CASE due.was WHEN 'pending' THEN :now ELSE :tried_at END
    FROM due WHERE due.jeditaskid = task.jeditaskid
    RETURNING task.jeditaskid, task.status, task.attemptnr, due.was
), logged AS (
    INSERT INTO {panda}.tasks_statuslog (jeditaskid, modificationtime, status, attemptnr, reason, modificationhost)
    SELECT jeditaskid, :now, status, attemptnr, 'Rucio has answered for its input', 'HOST' FROM woken
    WHERE was = 'pending'
)
SELECT count(*) FROM woken""".replace("HOST", HOST)


def answered_since(connection: sa.Connection, names: Names) -> list[int]:
    """The tasks about whose input Rucio gave a new answer after it was decided that they wait for it."""
    values = {"reasons": [reason.code for reason in INPUT_REASONS], "types": list(INPUT_FAMILIES)}
    query = sa.text(names.sql(_READ_WAITING))
    waiting = connection.execute(query, {**values, "working": list(WORKING_STATUSES)}).all()
    if not waiting:
        return []
    dids = [scope_and_name(row.datasetname) for row in waiting]
    pairs = {"scopes": array_of_texts([did[0] for did in dids]), "names": array_of_texts([did[1] for did in dids])}
    changed_at = {row.number: row.changed_at for row in connection.execute(sa.text(names.sql(_READ_ANSWERED)), pairs)}
    due = {
        row.jeditaskid
        for number, row in enumerate(waiting, 1)
        if number in changed_at and changed_at[number] > row.seen_at - LONGEST_CYCLE
    }
    return sorted(due)


def let_go_on(connection: sa.Connection, names: Names, tasks: Sequence[int], now: datetime) -> int:
    """Let these tasks be brokered in the next cycle instead of after their waiting time; return their number."""
    stamp = naive(now)
    values = {"tasks": list(tasks), "working": list(WORKING_STATUSES), "now": stamp}
    values["tried_at"] = stamp - 2 * RETRY_AFTER
    return int(connection.execute(sa.text(names.sql(_GO_ON)), values).scalar_one())

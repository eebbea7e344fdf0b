"""The files that jobs are to write, recorded when the jobs are activated.

Source: PanDA data model, datasets and files: output and log are contents of datasets of their own, marked with the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from broker.store.connection.names import Names

_INSERT_OUTPUT_FILES = """
WITH made AS MATERIALIZED (
    SELECT job.pandaid, output.jeditaskid, output.datasetid, output.type, output.scope, dataset.datasetname,
        replace(output.lfn, '${PANDAID}', job.pandaid::text) AS lfn, nextval('{broker}.pseudo_file_seq') AS fileid
    FROM unnest(CAST(:jobs AS bigint[])) AS wanted (pandaid)
    JOIN {panda}.jobsactive4 AS job ON job.pandaid = wanted.pandaid
    JOIN {broker}.task_outputs AS output ON output.jeditaskid = job.jeditaskid
    JOIN {panda}.jedi_datasets AS dataset
        ON dataset.jeditaskid = output.jeditaskid AND dataset.datasetid = output.datasetid
    WHERE job.jobstatus = 'activated'
    ORDER BY job.pandaid, output.position
), contents AS (
    INSERT INTO {panda}.jedi_dataset_contents (jeditaskid, datasetid, fileid, lfn, type, status, proc_status,
        creationdate, scope, pandaid)
    SELECT jeditaskid, datasetid, fileid, lfn, type, 'defined', 'queued', :now, scope, pandaid FROM made
), counted AS (
    UPDATE {panda}.jedi_datasets AS dataset SET nfiles = coalesce(dataset.nfiles, 0) + sums.files
    FROM (SELECT jeditaskid, datasetid, count(*) AS files FROM made GROUP BY jeditaskid, datasetid) AS sums
    WHERE dataset.jeditaskid = sums.jeditaskid AND dataset.datasetid = sums.datasetid
)
INSERT INTO {panda}.filestable4 (row_id, pandaid, modificationtime, lfn, type, status, dataset, destinationdblock,
    scope, jeditaskid, datasetid, fileid)
SELECT nextval('{panda}.filestable4_row_id_seq'), pandaid, :now, lfn, type, 'defined', datasetname, datasetname, scope,
    jeditaskid, datasetid, fileid
FROM made"""


def record_outputs(connection: sa.Connection, names: Names, jobs: Sequence[int], now: datetime) -> int:
    """Record what these jobs are to write, where they were activated at ``now`` (naive UTC); how many files."""
    if not jobs:
        return 0
    return connection.execute(sa.text(names.sql(_INSERT_OUTPUT_FILES)), {"jobs": list(jobs), "now": now}).rowcount

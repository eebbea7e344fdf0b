"""Reads the template of a job's task, the number of the job, and its files with their streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from broker.store.connection.tables import Names

_READ_TEMPLATE = """
SELECT template.jobparamstemplate, template.sn_offset, template.seed_offset, template.source_url,
    coalesce(serial.number, 0) AS number
FROM {broker}.task_templates AS template
LEFT JOIN {broker}.job_serial_numbers AS serial ON serial.pandaid = :job
WHERE template.jeditaskid = :task"""
_READ_STREAMS = """
SELECT dataset.streamname AS stream, dataset.datasetname, dataset.containername, dataset.masterid IS NULL AS is_master,
    record.lfn, record.type, file.firstevent, file.startevent, file.endevent, file.nevents
FROM {panda}.filestable4 AS record
JOIN {panda}.jedi_datasets AS dataset ON dataset.jeditaskid = record.jeditaskid AND dataset.datasetid = record.datasetid
LEFT JOIN {panda}.jedi_dataset_contents AS file ON file.jeditaskid = record.jeditaskid
    AND file.datasetid = record.datasetid AND file.fileid = record.fileid
WHERE record.pandaid = :job AND record.type IN ('input', 'pseudo_input', 'output', 'log')
ORDER BY record.row_id"""


def read_template(connection: sa.Connection, names: Names, job: Mapping[Any, Any]) -> Mapping[Any, Any] | None:
    """The row of the template, with the number of the job; None if the task has no template."""
    values = {"task": job["jeditaskid"], "job": job["pandaid"]}
    return connection.execute(sa.text(names.sql(_READ_TEMPLATE)), values).mappings().first()


def read_streams(connection: sa.Connection, names: Names, job: Mapping[Any, Any]) -> Sequence[Mapping[Any, Any]]:
    """The files of a job, each with its stream and events."""
    return connection.execute(sa.text(names.sql(_READ_STREAMS)), {"job": job["pandaid"]}).mappings().all()

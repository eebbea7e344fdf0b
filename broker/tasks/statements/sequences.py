"""Sequences of numbers alongside a primary input that grows: there is a number for each of its files."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from broker.store.connection.tables import Names
from broker.tasks.model.selection import sequence
from broker.tasks.statements.contents import FileTerms, add_files

_READ_SHORT = """
SELECT numbers.datasetid, numbers.nfiles,
    (SELECT max(lfn::bigint) FROM {panda}.jedi_dataset_contents AS row
     WHERE row.jeditaskid = numbers.jeditaskid AND row.datasetid = numbers.datasetid) AS last,
    (SELECT sum(nfiles)::bigint FROM {panda}.jedi_datasets AS master
     WHERE master.jeditaskid = numbers.jeditaskid AND master.masterid IS NULL AND master.type = 'input') AS wanted
FROM {panda}.jedi_datasets AS numbers
WHERE numbers.jeditaskid = :task AND numbers.type = 'pseudo_input' AND numbers.masterid IS NOT NULL
  AND numbers.datasetname = 'seq_number'"""


def extend_sequence(connection: sa.Connection, names: Names, task_id: int, now: datetime) -> None:
    """Add the missing numbers after the last one. ``now``: naive UTC."""
    for row in connection.execute(sa.text(names.sql(_READ_SHORT)), {"task": task_id}).all():
        missing = int(row.wanted or 0) - int(row.nfiles or 0)
        if missing > 0:
            terms = FileTerms(task_id, row.datasetid, "pseudo_input")
            add_files(connection, names, terms, sequence(missing, int(row.last or 0)), now, state="closed")

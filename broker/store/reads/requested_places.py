"""Cloud and site that the parameters of tasks name, for brokerages that ask for them.

Source: PanDA JEDI, GenJobBroker: ``cloud`` counts where the task has none, ``PandaSite`` in any case.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from broker.domain.arrays import texts
from broker.domain.work import DroppedRow
from broker.snapshot.readings import BadValueError, json_object, text
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.task_reads import PARAMETER_ROWS
from broker.work.assemble import CycleWork

CLOUD, PANDA_SITE = "cloud", "PandaSite"


def with_requested_places(connection: sa.Connection, catalogue: TableCatalogue, work: CycleWork) -> CycleWork:
    """The work with the cloud and the site that the parameters of each task name.

    Args:
        connection: of the caller's read-only transaction.
        catalogue: the tables that the database has.
        work: of a cycle.
    """
    chunks = work.work.chunks
    tasks = chunks.jeditaskid.tolist()
    dropped_rows: list[DroppedRow] = []
    asked = _read(connection, catalogue, sorted(set(tasks)), dropped_rows)
    none: Mapping[str, str | None] = {}
    # an empty cloud is one of that name
    clouds = [
        cloud or asked.get(task, none).get(CLOUD, cloud)
        for task, cloud in zip(tasks, chunks.cloud.tolist(), strict=True)
    ]
    sites = [asked.get(task, none).get(PANDA_SITE) or None for task in tasks]
    placed = dataclasses.replace(chunks, cloud=texts(clouds), panda_site=texts(sites))
    whole = dataclasses.replace(work.work, chunks=placed, dropped_rows=(*work.work.dropped_rows, *dropped_rows))
    return dataclasses.replace(work, work=whole)


def _read(
    connection: sa.Connection, catalogue: TableCatalogue, tasks: Iterable[int], dropped_rows: list[DroppedRow]
) -> dict[int, dict[str, str | None]]:
    source = catalogue.needed(PARAMETER_ROWS)
    query = f"SELECT jeditaskid, taskparams FROM {source} AS p WHERE jeditaskid = ANY(:ids)"  # noqa: S608 - a name
    found: dict[int, dict[str, str | None]] = {}
    for task, document in connection.execute(sa.text(query), {"ids": list(tasks)}):
        if document is None or not (CLOUD in document or PANDA_SITE in document):
            continue
        try:
            given: dict[str, Any] = json_object(document, "taskparams")
            found[task] = {key: text(given[key], key) for key in (CLOUD, PANDA_SITE) if key in given}
        except BadValueError as bad:
            dropped_rows.append(DroppedRow("jedi_taskparams", str(task), bad.code, str(bad)))
    return found

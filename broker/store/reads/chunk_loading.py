"""Loading the work of one cycle: from the tables to chunks with sizes and places, in the caller's transaction.

The history of rebrokerage is read too: from which queues jobs of a dataset were taken, and when.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import sqlalchemy as sa

from broker.domain.arrays import Ints, objects
from broker.domain.work import DroppedRow, PlacementConstraints
from broker.pools.statements.pool_registration import read_placement_constraints
from broker.store.connection.array_transfer import array_of
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_reads import WorkSelection, read_input_datasets, read_ready_files, read_tasks
from broker.store.reads.replica_reads import read_catalogue, read_named_files, read_rank_limits
from broker.work.assemble import CycleWork, assemble
from broker.work.catalogue import at_vp_endpoints, distinct_dids, files_of_dids, place_datasets
from broker.work.chunks import (
    ChunkTable,
    FileRequests,
    InputFiles,
    form_chunks,
    plan_masters,
    plan_secondaries,
    uses_of,
)
from broker.work.locality import InputPlaces, place_inputs, real_datasets, wanted_ranks
from broker.work.tasks import DatasetTable, TaskTable, malformed_values, split_rules_of

_READ_REBROKERED_FROM = sa.text("""
    SELECT jeditaskid, datasetid, queue, extract(epoch FROM rebrokered_at)::float8
    FROM broker.rebrokered_from WHERE jeditaskid = ANY(CAST(:tasks AS bigint[]))""")


def read_rebrokered_from(connection: sa.Connection, tasks: Sequence[int]) -> dict[tuple[int, int], dict[str, float]]:
    """The times of the last rebrokerage (s since 1970) by queue, for each (task, dataset) of the tasks."""
    by_dataset: dict[tuple[int, int], dict[str, float]] = {}
    for task, dataset, queue, at_s in connection.execute(_READ_REBROKERED_FROM, {"tasks": array_of(tasks)}):
        by_dataset.setdefault((task, dataset), {})[queue] = at_s
    return by_dataset


def load_work(connection: sa.Connection, catalogue: TableCatalogue, selection: WorkSelection) -> CycleWork:
    """Read the tasks of the selection and form their chunks.

    A task without input datasets or ready files has no chunk. Unusable parts of rows are reported in ``dropped_rows``,
    as are master datasets that wait for the next cycle because the files of a cycle are limited.
    """
    tasks = read_tasks(connection, catalogue, selection)
    rules = split_rules_of(tasks)
    datasets = read_input_datasets(connection, catalogue, tasks)
    uses = uses_of(datasets)
    masters = plan_masters(tasks, datasets, rules, selection.files_of_a_dataset)
    master_files = read_ready_files(connection, catalogue, tasks, datasets, masters, selection.files_of_a_cycle)
    secondaries = plan_secondaries(datasets, uses, masters, len(master_files))
    secondary_files = read_ready_files(connection, catalogue, tasks, datasets, secondaries)
    chunks, inputs = form_chunks(tasks, datasets, rules, uses, masters, master_files, secondaries, secondary_files)
    dropped_rows = _waiting(datasets, masters, len(master_files))
    return assemble_chunks(
        connection,
        catalogue,
        tasks,
        datasets,
        chunks,
        inputs,
        whole_constituents=selection.whole_constituents,
        dropped_rows=dropped_rows,
    )


def assemble_chunks(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    tasks: TaskTable,
    datasets: DatasetTable,
    chunks: ChunkTable,
    inputs: InputFiles,
    *,
    whole_constituents: bool,
    statuses: tuple[str, ...] = ("ready",),
    dropped_rows: tuple[DroppedRow, ...] = (),
) -> CycleWork:
    """Assemble the work of chunks whose files are known: add the places of their input and the history of their tasks.

    Args:
        connection: connection of the caller's read-only transaction.
        catalogue: the tables of the database.
        tasks: tasks of the chunks.
        datasets: datasets of the tasks.
        chunks: positions of task and master dataset.
        inputs: the datasets of the chunks and their files.
        whole_constituents: whether only constituents of containers count that are complete at a place, and only
            virtual placements at endpoints for them, as for analysis input.
        statuses: statuses of files that the replica catalogue may name individually.
        dropped_rows: rows dropped so far.
    """
    rules = split_rules_of(tasks)
    places = _load_places(connection, catalogue, tasks, datasets, chunks, inputs, whole_constituents, statuses)
    dropped_rows = (
        *malformed_values(tasks, rules),
        *_malformed_attributes(datasets, tuple(use.malformed for use in uses_of(datasets))),
        *places.dropped_rows,
        *dropped_rows,
    )
    rebrokered_from = read_rebrokered_from(connection, tasks.jeditaskid.tolist())
    work = assemble(tasks, datasets, rules, chunks, inputs, places, dropped_rows, rebrokered_from)
    return _with_placement_constraints(work, read_placement_constraints(connection, tasks.jeditaskid.tolist()))


def _with_placement_constraints(work: CycleWork, constraints: Mapping[int, PlacementConstraints]) -> CycleWork:
    """The work with the requirements of each task's jobs on site, CE and queue."""
    if not constraints:
        return work
    chunks = work.work.chunks
    column = objects(constraints.get(task) for task in chunks.jeditaskid.tolist())
    return dataclasses.replace(
        work, work=dataclasses.replace(work.work, chunks=dataclasses.replace(chunks, placement_constraints=column))
    )


def _load_places(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    tasks: TaskTable,
    datasets: DatasetTable,
    chunks: ChunkTable,
    inputs: InputFiles,
    whole_constituents: bool,
    statuses: tuple[str, ...],
) -> InputPlaces:
    wanted: Ints = real_datasets(inputs)
    dids, did_of = distinct_dids(datasets, wanted)
    answer = read_catalogue(connection, catalogue, dids)
    if whole_constituents:
        answer = at_vp_endpoints(answer)
    placed = place_datasets(answer, wanted, did_of)
    placed = placed.of_whole_parts() if whole_constituents else placed.of_first_files()
    files = datasets.nfiles.copy()
    files[wanted] = files_of_dids(answer, did_of, files[wanted])
    limits = read_rank_limits(connection, catalogue, tasks, datasets, wanted_ranks(placed, files))
    named = read_named_files(connection, catalogue, tasks, datasets, wanted, statuses)
    did_of_dataset = dict(zip(wanted.tolist(), did_of.tolist(), strict=True))
    return place_inputs(chunks, datasets, inputs, answer, did_of_dataset, placed, files, limits, named)


def _malformed_attributes(datasets: DatasetTable, malformed: tuple[tuple[str, ...], ...]) -> tuple[DroppedRow, ...]:
    return tuple(
        DroppedRow("jedi_datasets.attributes", str(int(datasetid)), "dataset_attribute", ", ".join(pieces))
        for datasetid, pieces in zip(datasets.datasetid.tolist(), malformed, strict=True)
        if pieces
    )


def _waiting(datasets: DatasetTable, masters: FileRequests, served: int) -> tuple[DroppedRow, ...]:
    waiting = datasets.datasetid[masters.dataset[np.arange(served, len(masters))]]
    return tuple(
        DroppedRow("jedi_datasets", str(int(datasetid)), "files_of_a_cycle", "waits for the next cycle")
        for datasetid in waiting.tolist()
    )

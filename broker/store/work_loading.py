"""The work of one cycle, from the tables to chunks with sizes and places, in the caller's transaction."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import sqlalchemy as sa

from broker.domain.arrays import Ints, texts
from broker.domain.work import LeftOut
from broker.store.lifecycle_memory import read_taken_back
from broker.store.pool_registration import read_asked_places
from broker.store.replica_reads import read_catalogue, read_named_files, read_rank_limits
from broker.store.tables import TableCatalogue
from broker.store.work_reads import WorkSelection, read_input_datasets, read_ready_files, read_tasks
from broker.work.assemble import CycleWork, assemble
from broker.work.catalogue import asked_dids, place_datasets
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


def load_work(connection: sa.Connection, catalogue: TableCatalogue, selection: WorkSelection) -> CycleWork:
    """Read the tasks of the selection and form their chunks.

    A task without input datasets or ready files has no chunk. What of a row cannot be used is reported in ``left_out``,
    and so are master datasets that wait for the next cycle because the files of a cycle are limited.
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
    places = _load_places(connection, catalogue, tasks, datasets, chunks, inputs)
    left_out = (
        *malformed_values(tasks, rules),
        *_malformed_attributes(datasets, tuple(use.malformed for use in uses)),
        *_waiting(datasets, masters, len(master_files)),
    )
    taken_back = read_taken_back(connection, tasks.jeditaskid.tolist())
    work = assemble(tasks, datasets, rules, chunks, inputs, places, left_out, taken_back)
    return _with_asked_places(work, read_asked_places(connection, tasks.jeditaskid.tolist()))


def _with_asked_places(work: CycleWork, asked: Mapping[int, str]) -> CycleWork:
    """The work with what the jobs of each task require of Site, CE and queue."""
    if not asked:
        return work
    chunks = work.work.chunks
    column = texts(asked.get(task) for task in chunks.jeditaskid.tolist())
    return dataclasses.replace(
        work, work=dataclasses.replace(work.work, chunks=dataclasses.replace(chunks, asked_places=column))
    )


def _load_places(
    connection: sa.Connection,
    catalogue: TableCatalogue,
    tasks: TaskTable,
    datasets: DatasetTable,
    chunks: ChunkTable,
    inputs: InputFiles,
) -> InputPlaces:
    wanted: Ints = real_datasets(inputs)
    dids, did_of = asked_dids(datasets, wanted)
    answer = read_catalogue(connection, catalogue, dids)
    placed = place_datasets(answer, wanted, did_of)
    limits = read_rank_limits(connection, catalogue, tasks, datasets, wanted_ranks(placed, datasets))
    named = read_named_files(connection, catalogue, tasks, datasets, wanted)
    did_of_dataset = dict(zip(wanted.tolist(), did_of.tolist(), strict=True))
    return place_inputs(chunks, datasets, inputs, answer, did_of_dataset, placed, limits, named)


def _malformed_attributes(datasets: DatasetTable, malformed: tuple[tuple[str, ...], ...]) -> tuple[LeftOut, ...]:
    return tuple(
        LeftOut("jedi_datasets.attributes", str(int(datasetid)), "dataset_attribute", ", ".join(pieces))
        for datasetid, pieces in zip(datasets.datasetid.tolist(), malformed, strict=True)
        if pieces
    )


def _waiting(datasets: DatasetTable, masters: FileRequests, served: int) -> tuple[LeftOut, ...]:
    waiting = datasets.datasetid[masters.dataset[np.arange(served, len(masters))]]
    return tuple(
        LeftOut("jedi_datasets", str(int(datasetid)), "files_of_a_cycle", "waits for the next cycle")
        for datasetid in waiting.tolist()
    )

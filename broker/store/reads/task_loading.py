"""Loading the work of one cycle of the task brokerage from the tables, in the caller's transaction."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from broker.domain.arrays import texts
from broker.domain.task_work import AssigningTable, PartReplicaTable, PartTable, TaskWork
from broker.domain.work import InputTable, Work
from broker.store.connection.tables import TableCatalogue
from broker.store.reads.chunk_loading import load_work
from broker.store.reads.chunk_reads import WorkSelection
from broker.store.reads.replica_reads import did_parameters, read_catalogue
from broker.store.reads.task_reads import (
    ASSIGNING,
    NO_READY_INPUT,
    TaskSelection,
    read_assigning,
    read_outputs,
    read_remaining,
)
from broker.work.catalogue import Catalogue, Did, has_answer, is_catalogued

#: Prefix of the names of database releases, which are available everywhere.
DATABASE_RELEASE = "ddo"
_LOG, _TYPE_FIELD = "log", 4
_UNTYPED = ("user.", "group.")


@dataclass(frozen=True)
class WantedInput:
    """A dataset that counts for the locality of the task at position ``task``."""

    task: int
    datasetid: int
    did: Did
    files: float  # of the whole dataset, NaN when unknown


@dataclass(frozen=True)
class _Replica:
    rse: str
    is_tape: bool
    files: float
    bytes: float
    total_files: float
    total_bytes: float


def counts_for_locality(name: str) -> bool:
    """Whether a dataset with this name (without scope) is looked up; database releases and logs are not."""
    if name.startswith(DATABASE_RELEASE):
        return False
    fields = name.split(".")
    return name.startswith(_UNTYPED) or len(fields) <= _TYPE_FIELD or fields[_TYPE_FIELD] != _LOG


def wanted_inputs(inputs: InputTable, task_of_chunk: list[int], master_only: frozenset[int]) -> list[WantedInput]:
    """The datasets that count for locality, once per task, in order.

    Args:
        inputs: inputs of the first chunks of the tasks.
        task_of_chunk: position of the task of each chunk.
        master_only: tasks for which only the primary input counts.
    """
    inputs_by_key: dict[tuple[int, int], WantedInput] = {}
    for index, chunk in enumerate(inputs.chunk.tolist()):
        task, name = task_of_chunk[chunk], str(inputs.name[index])
        counts = not inputs.is_pseudo[index] and (inputs.is_master[index] or task not in master_only)
        if counts and counts_for_locality(name):
            key = (task, int(inputs.datasetid[index]))
            inputs_by_key.setdefault(
                key, WantedInput(*key, (str(inputs.scope[index]), name), float(inputs.dataset_files[index]))
            )
    return [inputs_by_key[key] for key in sorted(inputs_by_key)]


def read_parts(
    connection: sa.Connection, catalogue: TableCatalogue, wanted: list[WantedInput]
) -> tuple[PartTable, PartReplicaTable]:
    """The parts of the datasets, and their replicas."""
    dids = tuple(dict.fromkeys(dataset.did for dataset in wanted))
    answer = read_catalogue(connection, catalogue, dids)
    position = {did: index for index, did in enumerate(answer.dids)}
    replicas = _replicas(answer, _read_bytes(connection, catalogue, answer))
    with_replicas = frozenset(answer.replicas.did.tolist())
    parts: list[tuple[int, int, bool, float, float, bool]] = []
    rows: list[tuple[int, _Replica]] = []
    for dataset in wanted:
        did = position[dataset.did]
        known = is_catalogued(answer, did, with_replicas)
        for part in answer.parts.get(did) or (did,):
            here = replicas.get(part, [])
            fallback = answer.lengths.get(part, dataset.files if part == did else np.nan)
            rows += [(len(parts), replica) for replica in here]
            is_final = has_answer(answer, part, with_replicas)
            parts.append((dataset.task, dataset.datasetid, known, *_totals(here, fallback), is_final))
    return _part_table(parts), _replica_table(rows)


def _totals(replicas: list[_Replica], fallback_files: float) -> tuple[float, float]:
    """Total files and bytes of a part according to its replicas."""
    files = [replica.total_files for replica in replicas if replica.total_files == replica.total_files]
    size = [replica.total_bytes for replica in replicas if replica.total_bytes == replica.total_bytes]
    return max(files, default=fallback_files), max(size, default=np.nan)


def _read_bytes(
    connection: sa.Connection, catalogue: TableCatalogue, answer: Catalogue
) -> dict[tuple[int, str], tuple[float, float]]:
    """Available and total bytes of each replica, by position of the DID and endpoint; NaN for NULL."""
    query = f"""
        SELECT a.position, r.rse, r.available_bytes, r.total_bytes
        FROM unnest(CAST(:positions AS bigint[]), CAST(:scopes AS text[]), CAST(:names AS text[]))
             AS a (position, scope, name)
        JOIN {catalogue.names.own("dataset_replicas")} AS r
            ON r.scope = a.scope AND r.name = a.name AND r.name NOT LIKE '%/'
    """  # noqa: S608 - names of tables
    rows = connection.execute(sa.text(query), did_parameters(answer.dids)).all()
    return {(int(row[0]), str(row[1])): (_number(row[2]), _number(row[3])) for row in rows}


def _number(value: int | None) -> float:
    return np.nan if value is None else float(value)


def _replicas(answer: Catalogue, sizes: dict[tuple[int, str], tuple[float, float]]) -> dict[int, list[_Replica]]:
    """The replicas by position of the DID; an unknown size is estimated from the number of files."""
    by_did: dict[int, list[_Replica]] = {}
    rows = answer.replicas
    for index, did in enumerate(rows.did.tolist()):
        if rows.is_vp[index]:
            continue
        rse, files, total = str(rows.rse[index]), float(rows.available_files[index]), float(rows.total_files[index])
        size, total_size = sizes.get((did, rse), (np.nan, np.nan))
        if size != size and total > 0:
            size = total_size * files / total
        by_did.setdefault(did, []).append(_Replica(rse, bool(rows.is_tape[index]), files, size, total, total_size))
    return by_did


def _part_table(rows: list[tuple[int, int, bool, float, float, bool]]) -> PartTable:
    return PartTable(
        task=np.array([row[0] for row in rows], dtype=np.int64),
        datasetid=np.array([row[1] for row in rows], dtype=np.int64),
        catalogued=np.array([row[2] for row in rows], dtype=np.bool_),
        files=np.array([row[3] for row in rows], dtype=np.float64),
        bytes=np.array([row[4] for row in rows], dtype=np.float64),
        asked=np.array([row[5] for row in rows], dtype=np.bool_),
    )


def _replica_table(rows: list[tuple[int, _Replica]]) -> PartReplicaTable:
    return PartReplicaTable(
        part=np.array([part for part, _ in rows], dtype=np.int64),
        rse=texts(replica.rse for _, replica in rows),
        is_tape=np.array([replica.is_tape for _, replica in rows], dtype=np.bool_),
        files=np.array([replica.files for _, replica in rows], dtype=np.float64),
        bytes=np.array([replica.bytes for _, replica in rows], dtype=np.float64),
        complete=np.array(
            [replica.total_files > 0 and replica.files == replica.total_files for _, replica in rows], dtype=np.bool_
        ),
    )


#: Files of a dataset in a chunk for the job brokerage. Source: PanDA production brokerage, input chunk.
HINT_FILES = 10


def load_task_work(connection: sa.Connection, catalogue: TableCatalogue, selection: TaskSelection) -> TaskWork:
    """Read the tasks of the selection with their outputs, inputs and replicas.

    A task without ready input keeps its place, with a fault. Unusable parts of rows are in ``dropped_rows``.
    """
    read = read_assigning(connection, catalogue, selection)
    tasks = read.tasks
    hint = _hint(connection, catalogue, selection, tasks)
    position = {int(task): at for at, task in enumerate(tasks.jeditaskid)}
    task_of_chunk = [position[int(task)] for task in hint.chunks.jeditaskid]
    parts, replicas = read_parts(connection, catalogue, wanted_inputs(hint.inputs, task_of_chunk, read.master_only))
    return TaskWork(
        _with_input_faults(tasks, frozenset(task_of_chunk)),
        read_outputs(connection, catalogue, tasks.jeditaskid),
        parts,
        replicas,
        read_remaining(connection, catalogue),
        hint,
        (*read.dropped_rows, *hint.dropped_rows),
    )


def _hint(
    connection: sa.Connection, catalogue: TableCatalogue, selection: TaskSelection, tasks: AssigningTable
) -> Work:
    """The first input files of the tasks as chunks of the job brokerage, none of them a scout."""
    wanted = WorkSelection(
        vo=selection.vo,
        labels=(),
        statuses=(ASSIGNING,),
        task_ids=tuple(tasks.jeditaskid.tolist()),
        files_of_a_dataset=HINT_FILES,
    )
    work = load_work(connection, catalogue, wanted).work
    return dataclasses.replace(work, chunks=dataclasses.replace(work.chunks, scout=np.zeros_like(work.chunks.scout)))


def _with_input_faults(tasks: AssigningTable, with_input: frozenset[int]) -> AssigningTable:
    missing = ("" if at in with_input else NO_READY_INPUT for at in range(len(tasks)))
    faults = texts(str(own) or none for own, none in zip(tasks.fault, missing, strict=True))
    return dataclasses.replace(tasks, fault=faults)

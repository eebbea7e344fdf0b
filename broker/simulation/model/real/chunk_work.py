"""The unassigned jobs of simulated tasks as chunks of input files, as the broker reads them from its tables.

A job is one file of the task's master dataset (split rule NF=1), so that the broker cuts the chunks into exactly the
jobs of the simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from broker.domain.arrays import Floats, Ints, texts
from broker.domain.work import InputTable, ReplicaTable
from broker.simulation.model.job_kinds import JobKind
from broker.simulation.model.job_states import BASE_WALL_S, BELIEVED_EFFICIENCY, TaskState
from broker.simulation.model.real.grid_rows import FIRST_WORK_QUEUE, START, endpoint
from broker.simulation.model.real.user_figures import user_name
from broker.simulation.model.scenario import Scenario
from broker.work.assemble import CycleWork, assemble
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.input_files import NULL_INTEGER, DatasetUse, FileTable
from broker.work.locality import InputPlaces
from broker.work.tasks import TASK_NUMBERS, TASK_TEXTS, DatasetTable, TaskTable, split_rules_of

SCOPE = "simulation"
FIRST_DATASET = 70_000_000
FILES_OF_A_TASK = 1_000_000
#: CPU time of an event below which it is kept in thousandths.
_SHORT_EVENT_HS06S = 100.0


def chunk_work(scenario: Scenario, states: Sequence[TaskState], most: int | None = None) -> CycleWork:
    """The unassigned jobs of the tasks, a chunk for each task, in the given order.

    Args:
        scenario: scenario of the simulation.
        states: states of the tasks.
        most: maximum jobs of each task, None for all.
    """
    tasks = _tasks(scenario, states)
    rules = split_rules_of(tasks)
    datasets = _datasets(states)
    count = len(states)
    numbers = np.arange(count, dtype=np.int64)
    ram = np.array([ram_mb(state) for state in states])
    no = np.zeros(count, dtype=np.bool_)
    chunks = ChunkTable(numbers, numbers, ram, no, no, no)
    inputs = _inputs(states, most)
    places = _places(scenario, states, datasets, inputs)
    return assemble(tasks, datasets, rules, chunks, inputs, places, rebrokered_from=_left(scenario, states))


def _left(scenario: Scenario, states: Sequence[TaskState]) -> dict[tuple[int, int], dict[str, float]]:
    return {
        (state.task.number, FIRST_DATASET + state.task.number): {
            scenario.queues[queue].name: time_s + START.timestamp() for queue, time_s in state.left.items()
        }
        for state in states
        if state.left
    }


def _tasks(scenario: Scenario, states: Sequence[TaskState]) -> TaskTable:
    rows = [task_row(scenario, state) for state in states]
    return TaskTable(
        jeditaskid=np.array([state.task.number for state in states], dtype=np.int64),
        ramcount_mb=np.array([ram_mb(state) for state in states]),
        frozentime_s=np.full(len(states), np.nan),
        texts={name: texts(row.get(name) for row in rows) for name in TASK_TEXTS},
        numbers={name: _numbers(rows, name) for name in TASK_NUMBERS},
    )


def ram_mb(state: TaskState) -> float:
    """Memory of a job in whole MB a core."""
    return float(round(state.kind.memory_gb_core * 1000.0))


def believed_work(state: TaskState) -> dict[str, Any]:
    """CPU time of an event as stored in the table of tasks: whole HS06 s, or mHS06 s for short events."""
    hs06s = state.believed_work_hs06s / state.kind.events
    if hs06s < _SHORT_EVENT_HS06S:
        return {"cputime": float(max(1, round(hs06s * 1000.0))), "cputimeunit": "mHS06sPerEvent"}
    return {"cputime": float(round(hs06s)), "cputimeunit": "HS06sPerEvent"}


def event_hs06s(state: TaskState) -> float:
    """CPU time of an event in HS06 s, as the broker reads it."""
    row = believed_work(state)
    return float(row["cputime"]) / (1000.0 if row["cputimeunit"].startswith("m") else 1.0)


def _numbers(rows: Sequence[dict[str, Any]], name: str) -> Floats:
    return np.array([row.get(name, np.nan) for row in rows], dtype=np.float64)


def task_row(scenario: Scenario, state: TaskState) -> dict[str, Any]:
    """The columns of a task that affect its brokerage; whole numbers where the table stores integers."""
    task, kind = state.task, state.kind
    return {
        "vo": task.vo,
        "status": "running",
        "username": user_name(task.user) if kind.analysis else "production",
        "prodsourcelabel": "user" if kind.analysis else "managed",
        "processingtype": kind.processingtype,
        "gshare": scenario.shares[task.share][0],
        "resource_type": "SCORE" if kind.cores == 1 else "MCORE",
        "cloud": "WORLD",
        "nucleus": None if state.nucleus < 0 else scenario.sites[state.nucleus].name,
        "ramunit": "MBPerCore",
        **believed_work(state),
        "outdiskunit": "kBPerEvent",
        "workdiskunit": "MB",
        "architecture": "x86_64-el9-gcc13-opt",
        # users' tasks name the transformation before the release, without which PanDA cannot read it
        "transhome": "AnalysisTransforms-Athena-24.0.62" if kind.analysis else "Athena-24.0.62",
        "splitrule": "NF=1",
        "workqueue_id": FIRST_WORK_QUEUE + task.share,
        "currentpriority": float(round(task.priority)),
        "taskpriority": float(round(task.priority)),
        "corecount": kind.cores,
        "baseramcount": 0.0,
        "cpuefficiency": BELIEVED_EFFICIENCY,
        "basewalltime": BASE_WALL_S,
        "outdiskcount": _output_kb(kind),
        "workdiskcount": 1000.0,
        "iointensity": 0.0,
        "diskio": 0.0,
        "eventservice": 0.0,
    }


@lru_cache(maxsize=64)
def _output_kb(kind: JobKind) -> float:
    """Output of an event as declared by a task: whole kB of a median job."""
    return float(max(1, round(float(kind.output_gb.quantile(np.array([0.5]))[0]) * 1e6 / kind.events)))


def _datasets(states: Sequence[TaskState]) -> DatasetTable:
    count = len(states)
    jobs = np.array([state.task.jobs for state in states], dtype=np.float64)
    nothing = texts([None] * count)
    created = np.array([state.task.arrival_s for state in states]) + START.timestamp()
    return DatasetTable(
        task=np.arange(count, dtype=np.int64),
        datasetid=np.array([FIRST_DATASET + state.task.number for state in states], dtype=np.int64),
        masterid=np.full(count, -1, dtype=np.int64),
        name=texts(dataset_name(state) for state in states),
        type=texts(["pseudo_input" if not state.task.sources else "input" for state in states]),
        status=texts(["ready"] * count),
        state=texts(["closed"] * count),
        site=nothing,
        attributes=nothing,
        nfiles=jobs,
        nfilestobeused=jobs,
        nfilesused=np.zeros(count),
        nfileswaiting=np.zeros(count),
        creationtime_s=created,
        modificationtime_s=created,
    )


def dataset_name(state: TaskState) -> str:
    """Name of the input dataset of a task, with its scope."""
    return f"{SCOPE}:{SCOPE}.{state.task.number}.input"


def _inputs(states: Sequence[TaskState], most: int | None) -> InputFiles:
    # the next job is on top of the stack
    waiting = [state.unassigned[::-1][:most] for state in states]
    sizes = np.array([len(indices) for indices in waiting], dtype=np.int64)
    total = int(sizes.sum())
    chunk = np.repeat(np.arange(len(states)), sizes)
    base = np.array([state.task.number * FILES_OF_A_TASK for state in states], dtype=np.int64)
    index = np.concatenate([np.array(indices, dtype=np.int64) for indices in waiting])
    fileid = base[chunk] + index
    size_bytes = np.array([int(state.kind.input_gb * 1e9) for state in states], dtype=np.int64)
    events = np.array([state.kind.events for state in states], dtype=np.int64)
    null = np.full(total, NULL_INTEGER, dtype=np.int64)
    files = FileTable(
        fileid=fileid,
        lfn_hash=fileid,
        fsize_bytes=size_bytes[chunk],
        nevents=events[chunk],
        startevent=null,
        endevent=null,
        boundaryid=null,
        lumiblocknr=null,
        ramcount_mb=null,
        attemptnr=np.zeros(total, dtype=np.int64),
    )
    uses = tuple(DatasetUse(pseudo=not state.task.sources) for state in states)
    numbers = np.arange(len(states), dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return InputFiles(numbers, numbers, np.ones(len(states), dtype=np.bool_), uses, offsets, files)


def _places(scenario: Scenario, states: Sequence[TaskState], datasets: DatasetTable, inputs: InputFiles) -> InputPlaces:
    """Places of the input: complete replicas at the sources of each task."""
    count = len(states)
    files = np.diff(inputs.offsets).astype(np.float64)
    sizes = files * np.array([state.kind.input_gb * 1e9 for state in states])
    owner: Ints = np.array([row for row, state in enumerate(states) for _ in state.task.sources], dtype=np.int64)
    rses = [endpoint(scenario.sites[site].name) for state in states for site in state.task.sources]
    yes, no = np.ones(len(owner), dtype=np.bool_), np.zeros(len(owner), dtype=np.bool_)
    table = InputTable(
        chunk=np.arange(count, dtype=np.int64),
        datasetid=datasets.datasetid,
        scope=texts([SCOPE] * count),
        name=texts(dataset_name(state).split(":")[1] for state in states),
        is_master=np.ones(count, dtype=np.bool_),
        is_pseudo=np.array([not state.task.sources for state in states], dtype=np.bool_),
        distributed=np.zeros(count, dtype=np.bool_),
        files=files,
        bytes=sizes,
        dataset_files=datasets.nfiles,
        catalogued=np.ones(count, dtype=np.bool_),
        asked=np.ones(count, dtype=np.bool_),
        is_container=np.zeros(count, dtype=np.bool_),
    )
    total = datasets.nfiles[owner]
    replicas = ReplicaTable(
        input=owner,
        rse=texts(rses),
        is_tape=no,
        is_vp=no,
        found=total,
        total=total,
        complete=yes,
        holds_all=yes,
        chunk_files=files[owner],
        chunk_bytes=sizes[owner],
        held_parts=np.full(len(owner), None, dtype=np.object_),
    )
    return InputPlaces(table, replicas, (None,) * len(owner))

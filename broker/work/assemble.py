"""Assemble the work of a cycle from its rows: chunks, inputs, replicas, and how each chunk is cut.

Source: ATLAS Production Job Brokerage; PanDA data model, tasks and split rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Objects, objects
from broker.domain.work import DroppedRow, InputTable, RebrokeredFrom, ReplicaTable, WayToRun, Work, WorkTable
from broker.work.atoms import ChunkSizes, chunk_sizes
from broker.work.chunks import ChunkTable, InputFiles
from broker.work.cutting import JobCutter, job_cutter
from broker.work.job_model import JobModel, job_models
from broker.work.locality import InputPlaces
from broker.work.split_settings import SplitSettings, split_settings
from broker.work.tasks import TASK_NUMBERS, TASK_TEXTS, DatasetTable, SplitRules, TaskTable

#: Columns of WorkTable that hold the number of a split-rule token, and those that tell whether it is present.
_RULE_NUMBERS = {
    "t1weight": "TW",
    "max_core_count": "CC",
    "dynamic_num_events": "DY",
    "max_events_per_job": "MX",
    "es_consumers": "EC",
}
_RULE_CODES = {"full_chain": "FU", "ip_connectivity": "IP", "ip_stack": "IK", "allow_input_lan": "IL"}
_RULE_FLAGS = {
    "input_prestaging": "IS",
    "allow_input_wan": "IW",
    "use_local_io": "LI",
    "job_cloning": "UC",
    "only_tags_for_fc": "OT",
    "merge_output": "MO",
}


@dataclass(frozen=True)
class CycleWork:
    """The chunks of a cycle with everything needed to cut them into jobs.

    ``table`` has positions of task and dataset, ``inputs`` the files, ``settings`` the task's rules for each chunk, and
    ``held`` for each row of ``work.replicas`` which files of the input are there (``None``: all). ``ways`` are the ways
    to run a task, by task, for tasks that have a choice.
    """

    work: Work
    table: ChunkTable
    inputs: InputFiles
    settings: tuple[SplitSettings, ...]
    held: tuple[Bools | None, ...]
    ways: Mapping[int, Sequence[WayToRun]] = field(default_factory=dict)

    def model(self, chunk: int) -> JobModel:
        """How jobs of the chunk grow with their input."""
        return self._models[chunk]

    @cached_property
    def _models(self) -> tuple[JobModel, ...]:
        return job_models(self.work.chunks)

    @cached_property
    def spread_replicas(self) -> Mapping[int, tuple[int, int]]:
        """By chunk, replicas ``(first, stop)`` of its master, where it is distributed and not whole everywhere."""
        inputs, input_of = self.work.inputs, self.work.replicas.input
        rows, first = np.unique(inputs.chunk, return_index=True)
        masters = inputs.distributed[first] & inputs.is_master[first]
        low, high = np.searchsorted(input_of, first), np.searchsorted(input_of, first + 1)
        spans = zip(rows[masters].tolist(), low[masters].tolist(), high[masters].tolist(), strict=True)
        return {row: (low, high) for row, low, high in spans if any(held is not None for held in self.held[low:high])}

    def cutter(self, chunk: int) -> JobCutter:
        """A cutter for the chunk that has cut nothing yet."""
        return job_cutter(self.inputs, chunk, self.settings[chunk], self.model(chunk))


def settings_of(chunks: ChunkTable, rules: SplitRules) -> tuple[SplitSettings, ...]:
    """The task's rules for the jobs of each chunk."""
    known: dict[tuple[int, bool, bool], SplitSettings] = {}
    result = []
    for task, merging, scout in zip(chunks.task.tolist(), chunks.merging.tolist(), chunks.scout.tolist(), strict=True):
        key = (int(rules.code[task]), merging, scout)
        if key not in known:
            known[key] = split_settings(rules.of(task), merging, scout)
        result.append(known[key])
    return tuple(result)


def assemble(
    tasks: TaskTable,
    datasets: DatasetTable,
    rules: SplitRules,
    chunks: ChunkTable,
    inputs: InputFiles,
    places: InputPlaces | None,
    dropped_rows: tuple[DroppedRow, ...] = (),
    rebrokered_from: Mapping[tuple[int, int], Mapping[str, float]] | None = None,
) -> CycleWork:
    """Assemble the work of a cycle; without ``places`` inputs are not looked up and no replica is known.

    ``rebrokered_from``: by (task, dataset) the queues from which jobs were taken for rebrokerage, and when.
    """
    settings = settings_of(chunks, rules)
    sizes = chunk_sizes(chunks, inputs, settings)
    remembered = _rebrokered_from(tasks, datasets, chunks, rebrokered_from or {})
    table = _work_table(tasks, datasets, rules, chunks, sizes, remembered)
    located = places or InputPlaces(_no_inputs(), _no_replicas(), ())
    return CycleWork(
        Work(table, located.inputs, located.replicas, dropped_rows), chunks, inputs, settings, located.held
    )


def _rebrokered_from(
    tasks: TaskTable,
    datasets: DatasetTable,
    chunks: ChunkTable,
    rebrokered_from: Mapping[tuple[int, int], Mapping[str, float]],
) -> Objects:
    names = zip(tasks.jeditaskid[chunks.task].tolist(), datasets.datasetid[chunks.dataset].tolist(), strict=True)
    return objects(RebrokeredFrom.of(rebrokered_from.get(name, {})) for name in names)


def _work_table(
    tasks: TaskTable,
    datasets: DatasetTable,
    rules: SplitRules,
    chunks: ChunkTable,
    sizes: ChunkSizes,
    rebrokered_from: Objects,
) -> WorkTable:
    task, master = chunks.task, chunks.dataset
    columns: dict[str, Any] = {name: tasks.texts[name][task] for name in TASK_TEXTS}
    columns.update({name: tasks.numbers[name][task] for name in TASK_NUMBERS})
    columns.update({name: rules.values(token)[task].astype(np.float64) for name, token in _RULE_NUMBERS.items()})
    columns.update({name: rules.values(token)[task] for name, token in _RULE_CODES.items()})
    columns.update({name: rules.present(token)[task] for name, token in _RULE_FLAGS.items()})
    columns["input_prestaging"] &= rules.values("IS")[task] != 0
    attempts = np.where(rules.present("XJ"), rules.values("XJ"), rules.values("XA"))[task]
    return WorkTable(
        jeditaskid=tasks.jeditaskid[task],
        datasetid=datasets.datasetid[master],
        ramcount=chunks.ramcount_mb,
        task_ramcount=tasks.ramcount_mb[task],
        frozentime_s=tasks.frozentime_s[task],
        es_attempts=attempts.astype(np.float64),
        merging=chunks.merging,
        scout=chunks.scout,
        jumbo=chunks.jumbo,
        master_site=datasets.site[master],
        master_creationtime_s=datasets.creationtime_s[master],
        master_modificationtime_s=datasets.modificationtime_s[master],
        master_nfiles=datasets.nfiles[master],
        master_nfilestobeused=datasets.nfilestobeused[master],
        n_files=sizes.n_files,
        total_files=sizes.total_files,
        total_bytes=sizes.total_bytes,
        atom_events=sizes.atom_events,
        atom_mb=sizes.atom_mb,
        atom_bytes=sizes.atom_bytes,
        longest_run_events=sizes.longest_run_events,
        ready_events=sizes.ready_events,
        accepted_cores=np.full(len(task), None, dtype=np.object_),
        placement_constraints=np.full(len(task), None, dtype=np.object_),
        panda_site=np.full(len(task), None, dtype=np.object_),
        rebrokered_from=rebrokered_from,
        **columns,
    )


def _no_inputs() -> InputTable:
    text = np.empty(0, dtype=np.object_)
    number, whole, flag = np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
    return InputTable(whole, whole, text, text, flag, flag, flag, number, number, number, flag, flag, flag)


def _no_replicas() -> ReplicaTable:
    text = np.empty(0, dtype=np.object_)
    number, whole, flag = np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
    return ReplicaTable(whole, text, flag, flag, number, number, flag, flag, number, number, text)

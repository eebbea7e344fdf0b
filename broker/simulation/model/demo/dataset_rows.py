"""Datasets, files and replicas of the demonstration tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from broker.simulation.model.demo.clock import Clock, Row
from broker.simulation.model.demo.facts import DemoFacts, SecondaryFacts, TaskFacts
from broker.simulation.model.demo.policy_rows import VO
from broker.simulation.model.demo.task_rows import FIRST_TASK, quick_jobs

FIRST_DATASET = 61_000_001
FIRST_FILE = 910_000_001
BYTES_PER_MB = 1024 * 1024
SCOPE = "mc23_13p6TeV"
ATTEMPTS = 5
RELATIVE_SIZE_SPREAD = 0.12
MERGE_ISSUED_H = 60
FILES_OF_A_LOG_AND_AN_OUTPUT = (("output", "OUTPUT0"), ("log", "LOG0"))


@dataclass
class DatasetTables:
    """The growing rows of the dataset tables, and the counters that number them."""

    facts: DemoFacts
    clock: Clock
    rng: np.random.Generator
    quick: bool
    datasets: list[Row] = field(default_factory=list)
    files: list[Row] = field(default_factory=list)
    replicas: list[Row] = field(default_factory=list)
    metadata: list[Row] = field(default_factory=list)
    dataset_ids: Iterator[int] = field(default_factory=lambda: count(FIRST_DATASET))
    file_ids: Iterator[int] = field(default_factory=lambda: count(FIRST_FILE))

    def add_task(self, index: int, task: TaskFacts) -> None:
        """Add everything that belongs to the task with this index in the facts."""
        task_id = FIRST_TASK + index
        if task.input == "unmerged":
            self._add_unmerged(task_id, task)
        else:
            self._add_input(task_id, task)
        for kind, stream in FILES_OF_A_LOG_AND_AN_OUTPUT:
            self.datasets.append(self._output_row(task_id, task, kind, stream))

    def _add_input(self, task_id: int, task: TaskFacts) -> None:
        ready = quick_jobs(task.jobs, self.quick) * task.files_a_job
        files = _file_columns(task, task.used + ready + task.unused_files)
        dataset_id, name = next(self.dataset_ids), _dataset_name(task, task_id)
        kind = "pseudo_input" if task.input == "pseudo" else "input"
        row = self._dataset_row(task_id, dataset_id, "pseudo_dataset" if task.input == "pseudo" else name, kind)
        row["nfilestobeused"] = task.used + ready
        size = self._add_files(row, task, files, used=task.used)
        self.datasets.append(row)
        if task.input == "pseudo":
            return
        self._add_replicas(task, name, len(files), size)
        for secondary in task.secondaries:
            self._add_secondary(task_id, task, dataset_id, secondary)

    def _add_secondary(self, task_id: int, task: TaskFacts, master_id: int, secondary: SecondaryFacts) -> None:
        name = f"{SCOPE}.900149.{secondary.name}.merge.HITS.e8514_tid{task_id}_00"
        row = self._dataset_row(task_id, next(self.dataset_ids), name, "input")
        row |= {"masterid": master_id, "attributes": secondary.attributes, "nfilestobeused": secondary.files}
        shape = _FileShape(2000, 2000, secondary.file_mb)
        size = self._add_files(row, task, [shape.file(index) for index in range(secondary.files)], used=0)
        self.datasets.append(row)
        self._add_replicas(task, name, secondary.files, size)

    def _add_unmerged(self, task_id: int, task: TaskFacts) -> None:
        """Add input whose files were all processed at one queue, and its output that waits to be merged."""
        processed = quick_jobs(task.jobs, self.quick) * task.files_a_job
        source = self._dataset_row(task_id, next(self.dataset_ids), _dataset_name(task, task_id), "input")
        source["nfilestobeused"] = processed
        size = self._add_files(source, task, _file_columns(task, processed), used=processed)
        self._add_replicas(task, _dataset_name(task, task_id), processed, size)
        self.datasets.append(source)
        master_id: int | None = None
        for kind, suffix, file_mb in (("trn_output", "HITS.unmerged", task.file_mb), ("trn_log", "log.unmerged", 12)):
            name = f"{_dataset_name(task, task_id)}.{suffix}"
            row = self._dataset_row(task_id, next(self.dataset_ids), name, kind)
            row |= {"masterid": master_id, "site": task.unmerged_at, "nfilestobeused": processed}
            row["modificationtime"] = self.clock.ago(hours=task.frozen_h or 2)
            row["creationtime"] = self.clock.ago(hours=MERGE_ISSUED_H)
            shape = _FileShape(task.events_per_file, task.events_per_file, file_mb)
            size = self._add_files(row, task, [shape.file(index) for index in range(processed)], used=0)
            self.datasets.append(row)
            self._add_replica(name, self._home(task), processed, processed, size)
            master_id = master_id or int(str(row["datasetid"]))

    def _home(self, task: TaskFacts) -> str:
        return self.facts.storage_site(task.unmerged_at) if task.unmerged_at else task.nucleus

    def _dataset_row(self, task_id: int, dataset_id: int, name: str, kind: str) -> Row:
        scoped = name if name == "pseudo_dataset" else f"{SCOPE}:{name}"
        return {
            "jeditaskid": task_id,
            "datasetid": dataset_id,
            "datasetname": scoped,
            "containername": scoped,
            "type": kind,
            "vo": VO,
            "site": None,
            "masterid": None,
            "status": "ready",
            "state": "closed",
            "streamname": "IN",
            "attributes": None,
            "nfileswaiting": 0,
            "nfilesmissing": 0,
            "nfilesonhold": 0,
            "nfilesfailed": 0,
            "creationtime": self.clock.ago(hours=72),
            "modificationtime": self.clock.ago(hours=40),
        }

    def _add_files(self, dataset: Row, task: TaskFacts, files: list[_File], used: int) -> int:
        """Add the files of a dataset, the first ``used`` of them finished; fills its counters, returns its bytes."""
        name = str(dataset["datasetname"])
        sizes = self.rng.normal(1, RELATIVE_SIZE_SPREAD, size=len(files)).clip(0.5, 1.5)
        seen: dict[str, int] = {}
        himem_from = len(files) - (quick_jobs(task.himem_files, self.quick) if task.himem_files else 0)
        for index, file in enumerate(files):
            lfn = f"{name.partition(':')[2] or task.name}._{file.number:06d}.root"
            size = seen.setdefault(lfn, int(file.mb * float(sizes[index]) * BYTES_PER_MB))
            self.files.append(self._file_row(dataset, file, lfn, size, index < used))
            if index >= himem_from:
                self.files[-1]["ramcount"] = task.himem_mb
        events = [file.last_event - file.first_event + 1 for file in files]
        dataset |= {"nfiles": len(files), "nfilesused": used, "nfilesfinished": used}
        target = int(str(dataset["nfilestobeused"]))
        dataset |= {"nevents": sum(events), "neventsused": sum(events[:used]), "neventstobeused": sum(events[:target])}
        return sum(seen.values())

    def _file_row(self, dataset: Row, file: _File, lfn: str, size_bytes: int, finished: bool) -> Row:
        file_id = next(self.file_ids)
        kind = dataset["type"]
        return {
            "jeditaskid": dataset["jeditaskid"],
            "datasetid": dataset["datasetid"],
            "fileid": file_id,
            "lfn": lfn,
            "guid": f"{file_id:08x}-0000-4000-8000-{file_id:012x}",
            "type": kind,
            "status": "finished" if finished else "ready",
            "proc_status": "finished" if finished else "ready",
            "fsize": None if kind == "pseudo_input" else size_bytes,
            "scope": SCOPE,
            "attemptnr": 1 if finished else 0,
            "maxattempt": ATTEMPTS if dataset["masterid"] is None else None,
            "failedattempt": 0,
            "maxfailure": 3,
            "keeptrack": 1,
            "nevents": file.events,
            "startevent": file.first_event,
            "endevent": file.last_event,
            "boundaryid": None,
            "lumiblocknr": file.lumiblock,
            "ramcount": 0,
            "creationdate": self.clock.ago(hours=72),
        }

    def _add_replicas(self, task: TaskFacts, name: str, files: int, size_bytes: int) -> None:
        replicas = (task.nucleus,) if task.replicas is None else task.replicas
        for place in replicas:
            site, _, state = place.partition(":")
            if state == "vp":
                self._add_replica(name, site, 0, files, size_bytes, kind="VP_DISK")
            elif state == "tape":
                self._add_replica(name, site, files, files, size_bytes, kind="DATATAPE")
            else:
                there = files * int(state.rstrip("%")) // 100 if state else files
                self._add_replica(name, site, there, files, size_bytes)
        self.metadata.append(
            {
                "scope": SCOPE,
                "name": name,
                "did_type": "DATASET",
                "length": files,
                "is_open": False,
                "rule_groupings": ["DATASET"],
            }
        )

    def _add_replica(
        self, name: str, site: str, there: int, files: int, size_bytes: int, kind: str = "DATADISK"
    ) -> None:
        complete = "AVAILABLE" if there == files else "UNAVAILABLE"
        self.replicas.append(
            {
                "scope": SCOPE,
                "name": name,
                "rse": self.facts.endpoint(site, kind),
                "is_tape": kind == "DATATAPE",
                "available_files": there,
                "total_files": files,
                "available_bytes": size_bytes * there // max(1, files),
                "total_bytes": size_bytes,
                "state": "VP" if kind == "VP_DISK" else complete,
            }
        )

    def _output_row(self, task_id: int, task: TaskFacts, kind: str, stream: str) -> Row:
        name = f"{SCOPE}.{task_id}.{task.name}.{kind}_tid{task_id}_00"
        row = self._dataset_row(task_id, next(self.dataset_ids), name, kind)
        counters = ("nfiles", "nfilestobeused", "nfilesused", "nfilesfinished", "nevents", "neventsused")
        return (
            row
            | dict.fromkeys((*counters, "neventstobeused"), 0)
            | {
                "status": "defined",
                "state": "open",
                "streamname": stream,
                "storagetoken": "ATLASDATADISK",
                "destination": None if task.waits_for_nucleus or task.user else f"nucleus:{task.nucleus}",
            }
        )


@dataclass(frozen=True)
class _File:
    """One row of a dataset's content: a file, or a range of its events."""

    number: int
    mb: int
    events: int
    first_event: int
    last_event: int
    lumiblock: int | None


@dataclass(frozen=True)
class _FileShape:
    """Events of a file, events of one row of it, and its size."""

    events: int
    events_a_row: int
    mb: int

    def file(self, index: int, lumiblock: int | None = None) -> _File:
        """The row with this index: the next range of events of its file."""
        number, part = divmod(index, max(1, self.events // self.events_a_row))
        first = part * self.events_a_row
        return _File(number, self.mb, self.events, first, first + self.events_a_row - 1, lumiblock)


def _file_columns(task: TaskFacts, rows: int) -> list[_File]:
    shape = _FileShape(task.events_per_file, task.events_per_job or task.events_per_file, task.file_mb)
    by_lumiblock = "RL=1" in task.rules.split(",")
    return [shape.file(index, index // task.files_a_job + 1 if by_lumiblock else None) for index in range(rows)]


def _dataset_name(task: TaskFacts, task_id: int) -> str:
    return f"{SCOPE}.{task_id % 100_000 + 600_000}.{task.name}.input.e8514_tid{task_id}_00"

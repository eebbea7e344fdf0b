"""Work of the task brokerage and a small grid of nuclei, for tests of the engine without a database."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from broker.domain.arrays import texts
from broker.domain.grid import OutputEndpoints
from broker.domain.task_work import AssigningTable, OutputTable, PartReplicaTable, PartTable, RemainingTable, TaskWork
from broker.engine.shared.chain import NucleusChain
from broker.engine.task.cycle import TaskCycle
from broker.gdpconfig.tuning import Tuning
from broker.snapshot.raw import SourceState
from broker.snapshot.snapshot import Snapshot
from tests.engine.small_work import work_of
from tests.rules.nucleus.nucleus_builders import make_assigning
from tests.snapshot.raw_grid import at_site, build, endpoint, queue, uses

GB = 1024.0**3


@dataclass(frozen=True)
class Copy:
    """A copy of a part at an endpoint: ``files`` of 1 GB each."""

    rse: str
    files: float = 10
    is_tape: bool = False
    complete: bool = True


@dataclass(frozen=True)
class Part:
    """A part of the input, of 10 files of 1 GB each."""

    copies: Sequence[Copy] = ()
    catalogued: bool = True
    files: float = 10


def nuclei(states: tuple[SourceState, ...] = (), **tables: Any) -> Snapshot:
    """Nuclei A, B and C with a queue and a disk each, A with a tape as well, and a satellite S."""
    names = ["A", "B", "C", "S"]
    return build(
        states=states,
        **{
            "schedconfig_json": [queue(f"{name}_Q") for name in names],
            "panda_site": [at_site(f"{name}_Q", name) for name in names],
            "site": [{"site_name": name, "role": "satellite" if name == "S" else "nucleus"} for name in names],
            "ddm_endpoint": [*(endpoint(f"{name}_DISK", name) for name in names), endpoint("A_TAPE", "A", is_tape="Y")],
            "panda_ddm_relation": [
                *(uses(f"{name}_Q", f"{name}_DISK") for name in names),
                uses("A_Q", "A_TAPE", roles="read_lan", default_read="N", default_write="N"),
            ],
            **tables,
        },
    )


def task_work(
    *inputs: Sequence[Part], remaining: Sequence[Mapping[str, Any]] = (), tasks: Mapping[str, Any] | None = None
) -> TaskWork:
    """Work with one task for each list of parts, without output and without work for the job brokerage."""
    count = len(inputs)
    table = make_assigning(count, **{"jeditaskid": list(range(1, count + 1)), **(tasks or {})})
    flat = {column.name: getattr(table, column.name).ravel() for column in dataclasses.fields(table)}
    parts = [(task, part) for task, group in enumerate(inputs) for part in group]
    copies = [(at, copy) for at, (_, part) in enumerate(parts) for copy in part.copies]
    none = np.empty(0, dtype=np.int64)
    return TaskWork(
        AssigningTable(**flat),
        OutputTable(none, none, texts([])),
        PartTable(
            np.array([task for task, _ in parts], dtype=np.int64),
            np.arange(len(parts)),
            np.array([part.catalogued for _, part in parts], dtype=np.bool_),
            np.array([part.files for _, part in parts], dtype=np.float64),
            np.array([part.files * GB for _, part in parts], dtype=np.float64),
            np.ones(len(parts), dtype=np.bool_),
        ),
        PartReplicaTable(
            np.array([at for at, _ in copies], dtype=np.int64),
            texts(copy.rse for _, copy in copies),
            np.array([copy.is_tape for _, copy in copies], dtype=np.bool_),
            np.array([copy.files for _, copy in copies], dtype=np.float64),
            np.array([copy.files * GB for _, copy in copies], dtype=np.float64),
            np.array([copy.complete for _, copy in copies], dtype=np.bool_),
        ),
        remaining_table(remaining),
        work_of(),
    )


def remaining_table(rows: Sequence[Mapping[str, Any]]) -> RemainingTable:
    """The remaining work of nuclei, by default of share Simulation, VO atlas and priority 500."""
    every = [{"vo": "atlas", "gshare": "Simulation", "workqueue_id": 1, "currentpriority": 500, **row} for row in rows]
    numbers = ("workqueue_id", "currentpriority", "hs06s")
    columns: dict[str, Any] = {name: np.array([row[name] for row in every], dtype=np.float64) for name in numbers}
    columns |= {name: texts(row[name] for row in every) for name in ("nucleus", "vo", "gshare")}
    return RemainingTable(**columns)


def cycle(
    work: TaskWork,
    filters: Sequence[Any] = (),
    weights: Sequence[Any] = (),
    load_weights: Sequence[Any] = (),
    *,
    grid: Snapshot | None = None,
    independent: bool = False,
) -> TaskCycle:
    """A cycle with these rules."""
    snapshot = grid or nuclei()
    empty = np.empty((0, len(snapshot.nuclei)), dtype=np.int64)
    endpoints = OutputEndpoints(
        np.empty(0, dtype=np.int64), empty, empty, empty, np.zeros(len(snapshot.nuclei), dtype=np.bool_)
    )
    chain = NucleusChain("toy", tuple(filters), tuple(weights), tuple(load_weights))
    return TaskCycle(snapshot, work, Tuning.defaults(), chain, endpoints, (), independent=independent)

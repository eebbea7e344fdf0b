"""Tables for rule tests. By default everything passes; a keyword overrides a column, a scalar applies to all rows."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from broker.domain.arrays import Floats, RowsByKind
from broker.domain.decisions import Observation
from broker.domain.facts import JobFacts
from broker.domain.queues import (
    GpuSummary,
    Hardware,
    HardwareEntry,
    QueueOffer,
    QueueSoftware,
    QueueTable,
    SoftwareOffers,
)
from broker.domain.work import WorkTable
from broker.gdpconfig.tuning import Tuning
from broker.rules.contract import AnyPairs, Filter, GroupFilter, Load, LoadCut, Rule, TuningView, Weight

FactsT = TypeVar("FactsT", bound=JobFacts)

NOW_S = 1_800_000_000.0
GB = 1024.0**3
MB = 1024.0**2
DTYPES = {"Floats": np.float64, "Ints": np.int64, "Bools": np.bool_, "Texts": np.object_, "Objects": np.object_}

TASK: dict[str, Any] = {
    "jeditaskid": 1,
    "datasetid": 10,
    "vo": "atlas",
    "status": "running",
    "username": "prod",
    "prodsourcelabel": "managed",
    "processingtype": "simul",
    "gshare": "Simulation",
    "resource_type": "SCORE",
    "workqueue_id": 1.0,
    "cloud": "WORLD",
    "nucleus": "NUCLEUS_A",
    "currentpriority": 500.0,
    "taskpriority": 500.0,
    "corecount": 1.0,
    "ramunit": "MBPerCore",
    "cputime": 100.0,
    "cputimeunit": "HS06sPerEvent",
    "cpuefficiency": 90.0,
    "basewalltime": 0.0,
    "outdiskunit": "kB",
    "workdiskunit": "MB",
    "eventservice": 0.0,
    "t1weight": 0.0,
    "max_core_count": 0.0,
    "dynamic_num_events": 0.0,
    "max_events_per_job": 0.0,
    "es_consumers": 0.0,
    "es_attempts": 0.0,
    "n_files": 1,
    "total_files": 1.0,
    "total_bytes": GB,
    "atom_events": 1000.0,
    "atom_mb": 1000.0,
    "atom_bytes": GB,
    "longest_run_events": 1000.0,
    "ready_events": 1000.0,
}
QUEUE: dict[str, Any] = {
    "name": "QUEUE_A",
    "unified_name": "QUEUE_A",
    "unified": 0,
    "nucleus": -1,
    "storage_site": 0,
    "output_storage": 0,
    "status": "online",
    "type": "production",
    "capability": "score",
    "cores": 1.0,
    "unified_cores": 1.0,
    "corepower": 10.0,
    "pledgedcpu": 0.0,
    "mintime_s": 0.0,
    "maxwdir_mb": 0.0,
    "transferringlimit": 0.0,
    "bare_nucleus": 0,
}
CHUNK_FACTS: tuple[str, ...] = (
    "one_preassigned",
    "listed",
    "urgent",
    "event_service",
    "es_high",
    "walltime_undefined",
    "accounting_key",
    "has_nucleus",
)
CHUNK_FACTS += ("nucleus_bare", "nucleus_wan", "nucleus_queued", "remote_source", "total_bytes", "total_files")
CHUNK_FACTS += ("nucleus_receives", "nucleus_is_satellite")
QUEUE_FACTS: tuple[str, ...] = (
    "storage_known",
    "all_running",
    "all_activated",
    "transferring",
    "n_pilots",
    "laststart_s",
)
QUEUE_FACTS += ("average_diskio_kbps", "space_free_gb", "space_usable_gb", "all_starting", "can_read", "can_write")
FACTS: dict[str, Any] = {
    "initial": True,
    "site_admitted": True,
    "pool_admitted": True,
    "accounting_key": "Simulation",
    "has_nucleus": True,
    "nucleus_wan": True,
    "nucleus_queued": 0.0,
    "storage_known": True,
    "closeness": 5.0,
    "link_queued": 0.0,
    "n_pilots": 10.0,
    "laststart_s": NOW_S,
    "average_diskio_kbps": 0.0,
    "space_free_gb": 1000.0,
    "can_read": True,
    "can_write": True,
    "can_receive": True,
    "can_send": True,
    "remote_source": True,
    "total_bytes": GB,
    "total_files": 1.0,
    "available_bytes": GB,
    "available_files": 1.0,
    "available_tape_bytes": GB,
    "available_tape_files": 1.0,
}
ANALYSIS_CHUNK_FACTS = (
    "site_named",
    "local_pass",
    "transuses",
    "gb_per_job",
    "avoids_vp",
    "share_queued",
    "share_running",
)
ANALYSIS_QUEUE_FACTS = (
    "cloud_of_queue",
    "is_vp",
    "has_output",
    "has_input_storage",
    "output_usable_gb",
    "input_usable_gb",
    "reads_lan",
    "writes_lan",
    "receives",
    "sends",
)
FACTS |= dict.fromkeys(("local_pass", "has_input", "has_output", "has_input_storage"), True)
FACTS |= dict.fromkeys(("reads_lan", "writes_lan", "receives", "sends"), True)
FACTS |= dict.fromkeys(("output_usable_gb", "input_usable_gb"), 1000.0)
FACTS |= dict.fromkeys(("queued_of_type", "running_of_type", "share_queued", "share_running", "gb_per_job"), 0.0)
FACTS |= dict.fromkeys(("jobs_finished", "jobs_bad", "to_running_rate", "user_queued", "user_running"), 0.0)
FACTS |= {"cloud_of_queue": "DE", "users": 1.0, "users_running": 0.0, "locality_weight": 1.0, "new_weight": 1.0}
COUNTS = ("defined", "assigned", "activated", "starting", "running", "running_equivalent", "running_cores")
FACTS |= dict.fromkeys((*COUNTS, "all_running", "all_activated", "transferring"), 0.0)
CPU = HardwareEntry(arch=("x86_64",))
#: The software of the queue at each position of ``unified``: everything, unchecked, none, GPUs, an old release.
OFFERS = SoftwareOffers(
    (
        QueueOffer("ALL", ("AUTO",), QueueSoftware("0", containers=("any",), cvmfs=frozenset({"any"}))),
        QueueOffer("ANY", ("ANY",), None),
        QueueOffer("NONE", ("AUTO",), None),
        QueueOffer(
            "GPU",
            ("AUTO",),
            QueueSoftware("1", containers=("any",), cvmfs=frozenset({"any"}), hardware=Hardware(CPU, HardwareEntry())),
            (GpuSummary("NVIDIA", "Tesla T4", "15360", "Turing", "12.4", "550.54"),),
        ),
        QueueOffer(
            "OLD",
            ("AUTO",),
            QueueSoftware(
                "2", cmtconfigs=("x86_64-slc6-gcc8-opt",), cvmfs=frozenset({"atlas"}), hardware=Hardware(CPU)
            ),
        ),
    )
)
OF_CHUNK, OF_QUEUE = {*CHUNK_FACTS, *ANALYSIS_CHUNK_FACTS}, {*QUEUE_FACTS, *ANALYSIS_QUEUE_FACTS}
NEUTRAL: dict[str, Any] = {"Floats": np.nan, "Ints": 0, "Bools": False, "Texts": None, "Objects": None}


def _column(kind: str, value: Any, shape: tuple[int, ...]) -> Any:
    if not isinstance(value, (list, np.ndarray)):
        return np.full(shape, np.nan if kind == "Floats" and value is None else value, dtype=DTYPES[kind])
    if isinstance(value, np.ndarray) or any(isinstance(item, (list, tuple, np.ndarray)) for item in value):
        value = np.array(value, dtype=object).ravel().tolist()
    if kind == "Floats":
        value = [np.nan if item is None else item for item in value]
    array: np.ndarray[Any, Any] = np.empty(len(value), dtype=DTYPES[kind])
    array[:] = value
    return np.full(shape, array[0], dtype=DTYPES[kind]) if array.size == 1 else array.reshape(shape)


@functools.cache
def _kinds(cls: type) -> dict[str, str]:
    """Map the fields of a table to their column types."""
    return {field.name: str(field.type) for field in dataclasses.fields(cls)}


def _filled(cls: Any, defaults: Mapping[str, Any], shape: tuple[int, int], values: Mapping[str, Any]) -> dict[str, Any]:
    fields = _kinds(cls)
    unknown = set(values) - set(fields)
    assert not unknown, f"{cls.__name__} has no {sorted(unknown)}"
    return {
        name: _column(kind, values.get(name, defaults.get(name, NEUTRAL[kind])), shape)
        for name, kind in fields.items()
        if kind in DTYPES
    }


def make_tasks(count: int = 1, **columns: Any) -> WorkTable:
    """Make a table of chunks with columns of shape (count, 1)."""
    return WorkTable(**_filled(WorkTable, TASK, (count, 1), columns))


def make_queues(count: int = 1, **columns: Any) -> QueueTable:
    """Make a table of candidates with columns of shape (1, count)."""
    return QueueTable(**_filled(QueueTable, QUEUE, (1, count), columns))


def make_facts(chunks: int = 1, queues: int = 1, **columns: Any) -> JobFacts:
    """Make job facts for the given numbers of chunks and candidates."""
    return facts_of(JobFacts, chunks, queues, **columns)


def facts_of(kind_of_facts: type[FactsT], chunks: int = 1, queues: int = 1, **columns: Any) -> FactsT:
    """Make the facts of a brokerage for the given numbers of chunks and candidates."""
    values: dict[str, Any] = {"now_s": columns.pop("now_s", NOW_S), "software": columns.pop("software", OFFERS)}
    fields = {name: kind for name, kind in _kinds(kind_of_facts).items() if name not in values}
    unknown = set(columns) - set(fields)
    assert not unknown, f"{kind_of_facts.__name__} has no {sorted(unknown)}"
    for name, kind in fields.items():
        of_chunk, of_queue = name in OF_CHUNK, name in OF_QUEUE
        shape = (chunks, 1) if of_chunk else (1, queues) if of_queue else (chunks, queues)
        values[name] = _column(kind, columns.get(name, FACTS.get(name, NEUTRAL[kind])), shape)
    return kind_of_facts(**values)


def make_load(count: int = 1, **columns: Any) -> Load:
    """Make the load of ``count`` candidates for one chunk."""
    columns = {**dict.fromkeys(COUNTS[:5], 0.0), "queue_limit": 20.0, "min_weight": 0.0, **columns}
    kinds = {field.name: str(field.type) for field in dataclasses.fields(Load)}
    arrays = {
        name: _column(kind, columns.get(name, NEUTRAL[kind]), (count,))
        for name, kind in kinds.items()
        if kind in DTYPES
    }
    return Load(**arrays)


def tuning_for(rule: Rule, **values: Any) -> TuningView:
    """Return default tuning with some keys set, limited to the keys that the rule declares."""
    return Tuning.defaults(vo="atlas").with_values(values).only(rule.keys)


def split(
    columns: Mapping[str, Any], kind_of_facts: type[JobFacts] = JobFacts
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Split keywords into columns of chunks, candidates and facts, and tuning keys (upper case)."""
    of_tasks = {field.name for field in dataclasses.fields(WorkTable)}
    of_queues = {field.name for field in dataclasses.fields(QueueTable)}
    of_facts = {field.name for field in dataclasses.fields(kind_of_facts)}
    tuning = {name: value for name, value in columns.items() if name.isupper()}
    prefixed = {name: value for name, value in columns.items() if name.startswith("queue_")}
    rest = {name: value for name, value in columns.items() if name not in tuning and name not in prefixed}
    unknown = set(rest) - of_tasks - of_queues - of_facts
    assert not unknown, f"no column is called {sorted(unknown)}"
    tasks = {name: value for name, value in rest.items() if name in of_tasks}
    facts = {name: value for name, value in rest.items() if name in of_facts}
    queues = {name: value for name, value in rest.items() if name in of_queues and name not in of_tasks}
    queues |= {name.removeprefix("queue_"): value for name, value in prefixed.items()}
    return tasks, queues, facts, tuning


@dataclasses.dataclass(frozen=True)
class Case:
    """One chunk and one candidate, given by their differences from the defaults. ``queue_x`` is column x of the queue.

    A column that chunks and facts share (``total_bytes``) is set in both.
    """

    keep: bool
    given: dict[str, Any]
    kind_of_facts: type[JobFacts] = JobFacts

    def tables(self) -> tuple[WorkTable, QueueTable, JobFacts, dict[str, Any]]:
        """Return the tables and the tuning values."""
        tasks, queues, facts, tuning = split(self.given, self.kind_of_facts)
        return make_tasks(**tasks), make_queues(**queues), facts_of(self.kind_of_facts, **facts), tuning


def kept(**columns: Any) -> Case:
    """Make a case in which the candidate passes."""
    return Case(True, columns)


def rejected(**columns: Any) -> Case:
    """Make a case in which the candidate is rejected."""
    return Case(False, columns)


def pairs_of(rule: Rule, tasks: Any, candidates: Any, facts: Any, tuning: TuningView) -> AnyPairs:
    """Return the pairs that the rule judges, of the type that it declares."""
    return rule.judges(tasks, candidates, facts, tuning)


def factors_of(rule: Weight[Any], pairs: AnyPairs) -> Floats:
    """Return the factors of a weight as an array, expanded to pairs where the weight answers by kind."""
    factor = rule.factor(pairs)
    return factor.every if isinstance(factor, RowsByKind) else factor


def passes(rule: Any, tasks: Any, queues: Any, facts: Any, tuning: TuningView) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Run the rule like the engine and return a (T, Q) mask. Chunks (or tasks) to which it does not apply pass."""
    shape = (tasks.jeditaskid.shape[0], queues.name.shape[1])
    pairs = pairs_of(rule, tasks, queues, facts, tuning)
    alive = np.ones(shape, dtype=np.bool_)
    keep = rule.keep_among(alive, pairs) if isinstance(rule, GroupFilter) else rule.keep(pairs)
    assert keep.dtype == np.bool_
    applies = rule.applies(pairs)
    if applies is None:
        return np.broadcast_to(keep, shape).copy()
    assert applies.dtype == np.bool_ and applies.shape in ((shape[0], 1), (1, 1))
    return np.broadcast_to(keep, shape) | ~np.broadcast_to(applies, shape)


def looks_at(rule: Any, tasks: Any, candidates: Any, facts: Any, tuning: TuningView) -> bool:
    """Return whether the rule applies to the only chunk."""
    applies = rule.applies(pairs_of(rule, tasks, candidates, facts, tuning))
    return applies is None or bool(applies.item())


def check(rule: Filter[Any], case: Case) -> None:
    """Check that the rule decides as the case expects, and that its observation agrees."""
    tasks, queues, facts, values = case.tables()
    tuning = tuning_for(rule, **values)
    assert bool(passes(rule, tasks, queues, facts, tuning).item()) is case.keep
    if looks_at(rule, tasks, queues, facts, tuning):
        assert holds(rule.observe(pairs_of(rule, tasks, queues, facts, tuning))) is case.keep


def check_cut(rule: LoadCut, keep: bool, weight: float, **load: Any) -> None:
    """Check that the cut decides as expected, and that its observation agrees."""
    load_table, weights = make_load(**load), np.array([weight])
    assert bool(rule.keep(load_table, weights).item()) is keep
    assert holds(rule.observe(load_table, weights)) is keep


def holds(observation: Observation) -> bool:
    """Whether ``value operator limit`` holds. It does without a limit; an unknown value meets only != and not in."""
    if observation.limit is None:
        return True
    if observation.operator == "!=":
        return bool(observation.value != observation.limit)
    if observation.operator == "not in":
        return str(observation.value) not in str(observation.limit).split(", ")
    if observation.value is None:
        return False
    if observation.operator == "in":
        return str(observation.value) in str(observation.limit).split(", ")
    if observation.operator == "==":
        return bool(observation.value == observation.limit)
    value, limit = float(observation.value), float(observation.limit)
    return {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit}[observation.operator]

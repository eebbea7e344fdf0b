"""Tables for tests of nucleus rules. By default everything passes; a keyword overrides a column."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from broker.domain.arrays import Bools
from broker.domain.decisions import Observation
from broker.domain.grid import NucleusTable
from broker.domain.task_work import AssigningTable, TaskFacts
from broker.gdpconfig.tuning import Tuning
from broker.rules.contract import Filter, GroupFilter, Rule, TaskPairs, Weight

AnyFilter = Filter[TaskPairs] | GroupFilter[TaskPairs]
NOW_S = 1_800_000_000.0
GB = 1024.0**3
DAY_S = 86_400.0
DTYPES: dict[str, Any] = {"Floats": np.float64, "Ints": np.int64, "Bools": np.bool_, "Texts": np.object_}
NEUTRAL: dict[str, Any] = {"Floats": np.nan, "Ints": 0, "Bools": False, "Texts": None}
TASK: dict[str, Any] = {
    "jeditaskid": 1,
    "vo": "atlas",
    "prodsourcelabel": "managed",
    "gshare": "Simulation",
    "currentpriority": 500.0,
    "taskpriority": 500.0,
    "iointensity": 100.0,
    "t1weight": 0.0,
    "remaining_hs06s": 0.0,
    "fault": "",
}
NUCLEUS: dict[str, Any] = {"name": "N", "is_nucleus": True, "state": "ACTIVE", "output_storage": -1}
FACTS: dict[str, Any] = {
    "initial": True,
    "backlog_files": 0.0,
    "has_storages": True,
    "storages_send": True,
    "storages_receive": True,
    "usable_gb": 500 * 1024.0,
    "expected_output_gb": 0.0,
    "free_gb": 500 * 1024.0,
    "expired_gb": 0.0,
    "total_gb": 1000 * 1024.0,
    "able_queues": 3.0,
    "queues": 5.0,
    "examined": True,
    "total_bytes": 100 * GB,
    "total_files": 200.0,
    "disk_bytes": 100 * GB,
    "disk_files": 200.0,
    "any_bytes": 100 * GB,
    "any_files": 200.0,
    "bound_to": -1,
    "share_work_hs06s": 0.0,
}
TASK_FACTS = ("job_check_failed", "examined", "total_bytes", "total_files", "bound_to")
NUCLEUS_FACTS = ("backlog_files", "expected_output_gb", "queues", "position")


def column_array(kind: str, value: Any, shape: tuple[int, ...]) -> Any:
    """Return the value or values as an array of the shape; None is NULL."""
    array: np.ndarray[Any, Any] = np.empty(shape, dtype=DTYPES[kind])
    values = np.array(value, dtype=object)
    if kind == "Floats":
        values = np.where(values == None, np.nan, values)  # noqa: E711 - elementwise
    array[...] = values.reshape(shape) if values.size > 1 else values.item()
    return array


def column_arrays(cls: Any, defaults: Mapping[str, Any], values: Mapping[str, Any], shape_of: Any) -> dict[str, Any]:
    """Return the columns of a table as arrays."""
    fields = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    assert not set(values) - set(fields), f"{cls.__name__} has no {sorted(set(values) - set(fields))}"
    return {
        name: column_array(kind, values.get(name, defaults.get(name, NEUTRAL[kind])), shape_of(name))
        for name, kind in fields.items()
        if kind in DTYPES
    }


def make_assigning(count: int = 1, **columns: Any) -> AssigningTable:
    """Make a table of tasks with columns of shape (count, 1)."""
    return AssigningTable(**column_arrays(AssigningTable, TASK, columns, lambda _: (count, 1)))


def make_nuclei(count: int = 1, **columns: Any) -> NucleusTable:
    """Make a table of nuclei with columns of shape (1, count)."""
    return NucleusTable(**column_arrays(NucleusTable, NUCLEUS, columns, lambda _: (1, count)))


def make_task_facts(tasks: int = 1, nuclei: int = 1, **columns: Any) -> TaskFacts:
    """Make facts for the given numbers of tasks and nuclei."""

    def shape(name: str) -> tuple[int, int]:
        return (tasks, 1) if name in TASK_FACTS else (1, nuclei) if name in NUCLEUS_FACTS else (tasks, nuclei)

    defaults = FACTS | {"position": list(range(nuclei))}
    return TaskFacts(now_s=columns.pop("now_s", NOW_S), **column_arrays(TaskFacts, defaults, columns, shape))


Tables = tuple[AssigningTable, NucleusTable, TaskFacts]


def tables(columns: Mapping[str, Any], tasks: int = 1, nuclei: int = 1) -> tuple[Tables, dict[str, Any]]:
    """Split keywords into columns of tasks, nuclei and facts, and tuning keys (upper case)."""
    tuning = {name: value for name, value in columns.items() if name.isupper() or ("_" in name and name[0].isupper())}
    rest = {name: value for name, value in columns.items() if name not in tuning}
    parts: list[dict[str, Any]] = []
    for cls in (AssigningTable, NucleusTable, TaskFacts):
        names = {field.name for field in dataclasses.fields(cls)}
        parts.append({name: rest.pop(name) for name in list(rest) if name in names})
    assert not rest, f"no column is called {sorted(rest)}"
    return (
        make_assigning(tasks, **parts[0]),
        make_nuclei(nuclei, **parts[1]),
        make_task_facts(tasks, nuclei, **parts[2]),
    ), tuning


def tuning_for(rule: Rule, values: Mapping[str, Any]) -> Tuning:
    """Return default tuning with some keys set, limited to the keys that the rule declares."""
    return Tuning.defaults(vo="atlas").with_values(values).only(rule.keys)


def passes(
    rule: Filter[TaskPairs] | GroupFilter[TaskPairs], columns: Mapping[str, Any], tasks: int = 1, nuclei: int = 1
) -> Bools:
    """Run the rule like the engine and return a (tasks, nuclei) mask."""
    (table, candidates, facts), values = tables(columns, tasks, nuclei)
    tuning = tuning_for(rule, values)
    applies = rule.applies(TaskPairs(table, candidates, facts, tuning))
    if isinstance(rule, GroupFilter):
        keep = rule.keep_among(facts.initial, TaskPairs(table, candidates, facts, tuning))
    else:
        keep = rule.keep(TaskPairs(table, candidates, facts, tuning))
        unknown = rule.unknown(TaskPairs(table, candidates, facts, tuning))
        if unknown is not None:
            keep = keep & ~unknown if rule.unknown_policy == "reject" else keep | unknown
    assert np.asarray(keep).dtype == np.bool_
    everywhere = np.broadcast_to(keep, (tasks, nuclei))
    return everywhere if applies is None else everywhere | ~np.broadcast_to(applies, (tasks, 1))


def holds(observation: Observation) -> bool:
    """Whether the observation says that the candidate passes."""
    value: Any = observation.value
    limit: Any = observation.limit
    if value is None:
        return False
    if isinstance(value, str):
        return bool({"==": value == limit}[observation.operator])
    operators = {">": value > limit, ">=": value >= limit, "<=": value <= limit, "<": value < limit}
    return bool({**operators, "==": value == limit}[observation.operator])


def observed(rule: Filter[TaskPairs] | GroupFilter[TaskPairs], columns: Mapping[str, Any]) -> Observation:
    """Return the rule's observation of one task and one nucleus."""
    (table, candidates, facts), values = tables(columns)
    return rule.observe(TaskPairs(table, candidates, facts, tuning_for(rule, values)))


def check(rule: Filter[TaskPairs], keep: bool, columns: Mapping[str, Any]) -> None:
    """Check one task and one nucleus: the mask is ``keep``, and where the rule applies, the observation agrees."""
    assert bool(passes(rule, columns).item()) is keep
    (table, candidates, facts), values = tables(columns)
    applies = rule.applies(TaskPairs(table, candidates, facts, tuning_for(rule, values)))
    if applies is None or bool(applies.item()):
        assert holds(observed(rule, columns)) is keep, observed(rule, columns)


def factor(rule: Weight[TaskPairs], **columns: Any) -> float:
    """Return the factor of one task and one nucleus."""
    (table, candidates, facts), values = tables(columns)
    factors = rule.factor(TaskPairs(table, candidates, facts, tuning_for(rule, values)))
    return float(np.asarray(factors).item())

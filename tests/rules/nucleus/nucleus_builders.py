"""Tables for tests of the rules on nuclei: by default everything passes; a keyword overrides a column."""

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


def column(kind: str, value: Any, shape: tuple[int, ...]) -> Any:
    """The value, or values, as an array of the shape; None is NULL."""
    array: np.ndarray[Any, Any] = np.empty(shape, dtype=DTYPES[kind])
    values = np.array(value, dtype=object)
    if kind == "Floats":
        values = np.where(values == None, np.nan, values)  # noqa: E711 - elementwise
    array[...] = values.reshape(shape) if values.size > 1 else values.item()
    return array


def filled(cls: Any, defaults: Mapping[str, Any], given: Mapping[str, Any], shape_of: Any) -> dict[str, Any]:
    """The columns of a table."""
    fields = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    assert not set(given) - set(fields), f"{cls.__name__} has no {sorted(set(given) - set(fields))}"
    return {
        name: column(kind, given.get(name, defaults.get(name, NEUTRAL[kind])), shape_of(name))
        for name, kind in fields.items()
        if kind in DTYPES
    }


def make_assigning(count: int = 1, **columns: Any) -> AssigningTable:
    """Tasks as columns of shape (count, 1)."""
    return AssigningTable(**filled(AssigningTable, TASK, columns, lambda _: (count, 1)))


def make_nuclei(count: int = 1, **columns: Any) -> NucleusTable:
    """Nuclei as columns of shape (1, count)."""
    return NucleusTable(**filled(NucleusTable, NUCLEUS, columns, lambda _: (1, count)))


def make_task_facts(tasks: int = 1, nuclei: int = 1, **columns: Any) -> TaskFacts:
    """Facts of so many tasks and nuclei."""

    def shape(name: str) -> tuple[int, int]:
        return (tasks, 1) if name in TASK_FACTS else (1, nuclei) if name in NUCLEUS_FACTS else (tasks, nuclei)

    defaults = FACTS | {"position": list(range(nuclei))}
    return TaskFacts(now_s=columns.pop("now_s", NOW_S), **filled(TaskFacts, defaults, columns, shape))


Tables = tuple[AssigningTable, NucleusTable, TaskFacts]


def tables(given: Mapping[str, Any], tasks: int = 1, nuclei: int = 1) -> tuple[Tables, dict[str, Any]]:
    """Keywords sorted into columns of tasks, nuclei and facts, and tuning keys (upper case)."""
    tuning = {name: value for name, value in given.items() if name.isupper() or ("_" in name and name[0].isupper())}
    rest = {name: value for name, value in given.items() if name not in tuning}
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
    """Default tuning with some keys set, of which the rule sees only those that it declares."""
    return Tuning.defaults(vo="atlas").with_values(values).only(rule.keys)


def passes(
    rule: Filter[TaskPairs] | GroupFilter[TaskPairs], given: Mapping[str, Any], tasks: int = 1, nuclei: int = 1
) -> Bools:
    """(tasks, nuclei): what passes the rule, as the engine would have it."""
    (table, candidates, facts), values = tables(given, tasks, nuclei)
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


def holds(seen: Observation) -> bool:
    """Whether what was observed says that the candidate passes."""
    value: Any = seen.value
    limit: Any = seen.limit
    if value is None:
        return False
    if isinstance(value, str):
        return bool({"==": value == limit}[seen.operator])
    operators = {">": value > limit, ">=": value >= limit, "<=": value <= limit, "<": value < limit}
    return bool({**operators, "==": value == limit}[seen.operator])


def observed(rule: Filter[TaskPairs] | GroupFilter[TaskPairs], given: Mapping[str, Any]) -> Observation:
    """What the rule saw of one task and one nucleus."""
    (table, candidates, facts), values = tables(given)
    return rule.observe(TaskPairs(table, candidates, facts, tuning_for(rule, values)))


def check(rule: Filter[TaskPairs], keep: bool, given: Mapping[str, Any]) -> None:
    """One task and one nucleus: the mask says ``keep``, and where the rule looks, the observation says the same."""
    assert bool(passes(rule, given).item()) is keep
    (table, candidates, facts), values = tables(given)
    applies = rule.applies(TaskPairs(table, candidates, facts, tuning_for(rule, values)))
    if applies is None or bool(applies.item()):
        assert holds(observed(rule, given)) is keep, observed(rule, given)


def factor(rule: Weight[TaskPairs], **given: Any) -> float:
    """The factor of one task and one nucleus."""
    (table, candidates, facts), values = tables(given)
    found = rule.factor(TaskPairs(table, candidates, facts, tuning_for(rule, values)))
    return float(np.asarray(found).item())

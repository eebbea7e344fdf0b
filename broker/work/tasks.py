"""Tasks and their input datasets as columns, as they are read for one cycle.

Source: PanDA data model, jedi_tasks and jedi_datasets; split rules of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints, Texts, distinct
from broker.domain.split_rule import SplitRule, parse_split_rule
from broker.domain.work import DroppedRow

#: Columns of ``jedi_tasks`` that are text, and those that are numbers (NULL is NaN), as in WorkTable.
TASK_TEXTS = (
    "vo", "status", "username", "prodsourcelabel", "processingtype", "workinggroup", "gshare", "resource_type", "cloud",
    "nucleus", "site", "ramunit", "walltimeunit", "cputimeunit", "outdiskunit", "workdiskunit", "transhome",
    "architecture", "container_name", "usejumbo", "splitrule",
)  # fmt: skip
TASK_NUMBERS = (
    "workqueue_id", "currentpriority", "taskpriority", "corecount", "mergecorecount", "baseramcount", "mergeramcount",
    "walltime", "cputime", "cpuefficiency", "basewalltime", "outdiskcount", "workdiskcount", "iointensity", "diskio",
    "eventservice",
)  # fmt: skip

CPU_TIME_UNITS = frozenset({"HS06sPerEvent", "HS06sPerEventFixed", "mHS06sPerEvent", "mHS06sPerEventFixed"})
RAM_UNITS = frozenset({"MB", "MBPerCore", "MBPerCoreFixed"})
_DISK_PREFIXES = ("GB", "MB", "kB")


@dataclass(frozen=True)
class TaskTable:
    """Tasks of a cycle as columns of length K, in brokerage order. ``texts`` and ``numbers`` by column name."""

    jeditaskid: Ints
    ramcount_mb: Floats
    frozentime_s: Floats
    texts: dict[str, Texts]
    numbers: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.jeditaskid)


@dataclass(frozen=True)
class DatasetTable:
    """Input datasets of the tasks as columns of length D. NULL is ``None``, NaN, or -1 in ``masterid``.

    ``task`` points into the task table. Types: see :data:`broker.work.chunks.INPUT_FAMILIES`.
    """

    task: Ints
    datasetid: Ints
    masterid: Ints
    name: Texts
    type: Texts
    status: Texts
    state: Texts
    site: Texts
    attributes: Texts
    nfiles: Floats
    nfilestobeused: Floats
    nfilesused: Floats
    nfileswaiting: Floats
    creationtime_s: Floats
    modificationtime_s: Floats

    def __len__(self) -> int:
        return len(self.datasetid)


@dataclass(frozen=True)
class SplitRules:
    """The split rules of the tasks; each distinct text is parsed once."""

    rules: tuple[SplitRule, ...]
    code: Ints  # (K,) index into rules

    def of(self, task: int) -> SplitRule:
        """The split rule of the task at position ``task``."""
        return self.rules[int(self.code[task])]

    def values(self, token: str, default: int = 0) -> Ints:
        """(K,) the integer of ``token`` for every task."""
        return np.array([rule.value(token, default) for rule in self.rules], dtype=np.int64)[self.code]

    def present(self, token: str) -> Bools:
        """(K,) whether the token is present."""
        return np.array([rule.has(token) for rule in self.rules], dtype=np.bool_)[self.code]


def split_rules_of(tasks: TaskTable) -> SplitRules:
    """The split rules of all tasks."""
    rules, code = distinct(tasks.texts["splitrule"])
    return SplitRules(tuple(parse_split_rule(text) for text in rules), code)


def malformed_values(tasks: TaskTable, rules: SplitRules) -> tuple[DroppedRow, ...]:
    """Malformed values of task rows: unreadable pieces of split rules, and unknown units.

    The task itself is used: a malformed piece is skipped, and a value in an unknown unit is read as if the unit were
    absent (bytes for disk, MB for memory, no estimate for CPU time).
    """
    bad_rule = np.array([bool(rule.malformed) for rule in rules.rules], dtype=np.bool_)[rules.code]
    entries = [
        DroppedRow(
            "jedi_tasks.splitrule", str(int(tasks.jeditaskid[k])), "split_rule", ", ".join(rules.of(k).malformed)
        )
        for k in np.flatnonzero(bad_rule).tolist()
    ]
    for column in ("cputimeunit", "ramunit", "outdiskunit", "workdiskunit"):
        units, code = distinct(tasks.texts[column])
        unknown = np.array([unit is not None and not _is_known_unit(column, unit) for unit in units], dtype=np.bool_)
        entries += [
            DroppedRow(f"jedi_tasks.{column}", str(int(tasks.jeditaskid[k])), "unknown_unit", repr(units[code[k]])[:60])
            for k in np.flatnonzero(unknown[code] if len(units) else code).tolist()
        ]
    return tuple(entries)


def _is_known_unit(column: str, unit: str) -> bool:
    if column == "cputimeunit":
        return unit in CPU_TIME_UNITS
    if column == "ramunit":
        return unit in RAM_UNITS
    return unit.startswith(_DISK_PREFIXES)

"""PanDA's task parameters as the columns of a task, for what the brokerage looks at.

Source: the JEDI task refiner of panda-server 1.0.4 (``jedirefine/TaskRefinerBase.py``), names of task parameters. What
is only refined by JEDI (output datasets, event ranges, merging) decides nothing here and is left to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.formats.model.sss.submission import DEFAULT_PRIORITY, PlannedFile, TaskPlan
from broker.tasks.answers.submit import NotSubmitted, SubmitOptions

TEXTS: Mapping[str, tuple[str, int]] = {
    "taskName": ("taskname", 256),
    "architecture": ("architecture", 256),
    "transUses": ("transuses", 64),
    "transHome": ("transhome", 128),
    "transPath": ("transpath", 128),
    "processingType": ("processingtype", 64),
    "workingGroup": ("workinggroup", 32),
    "countryGroup": ("countrygroup", 20),
    "walltimeUnit": ("walltimeunit", 32),
    "cpuTimeUnit": ("cputimeunit", 32),
    "outDiskUnit": ("outdiskunit", 32),
    "workDiskUnit": ("workdiskunit", 32),
    "ramUnit": ("ramunit", 32),
    "ioIntensityUnit": ("iointensityunit", 32),
    "diskIOUnit": ("diskiounit", 32),
    "gshare": ("gshare", 32),
    "nucleus": ("nucleus", 52),
    "site": ("site", 60),
    "container_name": ("container_name", 200),
    "campaign": ("campaign", 32),
    "requestType": ("requesttype", 32),
}
"""Parameter, column and its width."""
NUMBERS: Mapping[str, str] = {
    "coreCount": "corecount",
    "taskPriority": "taskpriority",
    "currentPriority": "currentpriority",
    "walltime": "walltime",
    "baseWalltime": "basewalltime",
    "cpuTime": "cputime",
    "cpuEfficiency": "cpuefficiency",
    "outDiskCount": "outdiskcount",
    "workDiskCount": "workdiskcount",
    "ramCount": "ramcount",
    "baseRamCount": "baseramcount",
    "ioIntensity": "iointensity",
    "diskIO": "diskio",
}
LARGEST = 2**31 - 1
MOST_FILES = 1000
ANALYSIS_LABELS = ("user", "panda")


def plan_parameters(given: Mapping[str, Any], options: SubmitOptions) -> TaskPlan:
    """The task that task parameters describe.

    Raises:
        NotSubmitted: one of them has a value of another kind, or out of range.
    """
    label = _text("prodSourceLabel", given.get("prodSourceLabel", options.label), 20)
    is_analysis = label in ANALYSIS_LABELS
    nucleus = given.get("nucleus", options.nucleus)
    columns: dict[str, Any] = {
        "taskname": "task",
        "status": "assigning" if nucleus is None and not is_analysis else "ready",
        "superstatus": "submitted",
        "prodsourcelabel": label,
        "vo": _text("vo", given.get("vo", options.vo), 32),
        "cloud": "WORLD",
        "tasktype": "anal" if is_analysis else "prod",
        "splitrule": "NF=1",
        "processingtype": "simul",
        "username": options.user or _text("userName", given.get("userName", "nobody"), 128),
        "corecount": 1,
        "currentpriority": DEFAULT_PRIORITY,
        "taskpriority": DEFAULT_PRIORITY,
        "nucleus": nucleus,
    }
    columns |= {column: _text(name, given[name], width) for name, (column, width) in TEXTS.items() if _has(given, name)}
    columns |= {column: _number(name, given[name]) for name, column in NUMBERS.items() if _has(given, name)}
    if "taskPriority" in given:
        columns.setdefault("currentpriority", columns["taskpriority"])
    jobs = _jobs(given)
    files = tuple(PlannedFile(f"job {number}", None, None, ()) for number in range(1, jobs + 1))
    notes = tuple(f"the input dataset {name} is not looked at" for name in _inputs(given))
    return TaskPlan(
        {column: value for column, value in columns.items() if value is not None}, dict(given), None, files, (), notes
    )


def _has(given: Mapping[str, Any], name: str) -> bool:
    return given.get(name) is not None


def _jobs(given: Mapping[str, Any]) -> int:
    """How many jobs there are to be: files over files of a job, as far as that is said."""
    files = _number("nFiles", given.get("nFiles", 1))
    per_job = _number("nFilesPerJob", given.get("nFilesPerJob", 1))
    return max(1, min(MOST_FILES, -(-files // max(1, per_job))))


def _inputs(given: Mapping[str, Any]) -> list[str]:
    listed = given.get("jobParameters")
    found = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return [str(one.get("dataset"))[:200] for one in found if one.get("param_type") == "input" and one.get("dataset")]


def _text(name: str, value: Any, width: int) -> str:
    if not isinstance(value, str) or not value or len(value) > width or "\0" in value:
        raise NotSubmitted(f"{name} must be a text of 1 to {width} characters", "task parameters", "correct it")
    return value


def _number(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise NotSubmitted(f"{name} must be a whole number from 0 to {LARGEST}", "task parameters", "correct it")
    return value

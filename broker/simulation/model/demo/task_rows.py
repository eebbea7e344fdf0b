"""Tasks of the demonstration grid, ready for the job brokerage."""

from __future__ import annotations

import json

from broker.simulation.model.demo.clock import Clock, Row
from broker.simulation.model.demo.facts import DemoFacts, TaskFacts
from broker.simulation.model.demo.policy_rows import VO, resource_type_of, share_queue_ids

FIRST_TASK = 43_000_001
RAM_COMPENSATION = 0.9
FLEXIBLE_CORES = 8
MILLI_BELOW_HS06S = 10
CPU_EFFICIENCY_PERCENT = 90
BASE_WALLTIME_S = 600
MERGE_RAM_MB = 2000
SCOUTS_TO_DO = "US=2"


def quick_jobs(jobs: int, quick: bool) -> int:
    """Number of jobs of a task: all of them, or a tenth (at least two) in a quick run."""
    return max(2, jobs // 10) if quick else jobs


def task_rows(facts: DemoFacts, clock: Clock) -> list[Row]:
    """Rows of ``jedi_tasks``, in the order of the facts; the ids count up from ``FIRST_TASK``."""
    return [task_row(facts, clock, FIRST_TASK + index, task) for index, task in enumerate(facts.tasks)]


def task_parameter_rows(facts: DemoFacts) -> list[Row]:
    """Rows of ``jedi_taskparams`` for the tasks of the demonstration grid."""
    return [task_parameter_row(task, FIRST_TASK + index) for index, task in enumerate(facts.tasks)]


def task_parameter_row(task: TaskFacts, task_id: int) -> Row:
    """The row of ``jedi_taskparams`` of one task."""
    return {"jeditaskid": task_id, "taskparams": json.dumps(_parameters(task, task_id))}


def _parameters(task: TaskFacts, task_id: int) -> dict[str, str]:
    lists = {"includedSite": task.included, "excludedSite": task.excluded}
    return {"taskName": _task_name(task, task_id)} | {key: names for key, names in lists.items() if names is not None}


def split_rule(task: TaskFacts) -> str:
    """The task's split rule: tokens that control the cutting of jobs, then the task's own tokens."""
    rule = "ZF" if task.input == "unmerged" else "NF"
    tokens = [
        f"{rule}={task.files_per_job}" if task.files_per_job else "",
        f"NE={task.events_per_job}" if task.events_per_job else "",
        f"NG={task.gb_per_job}" if task.gb_per_job else "",
        SCOUTS_TO_DO if task.status == "scouting" else "",
        task.rules,
    ]
    return ",".join(token for token in tokens if token)


def _task_name(task: TaskFacts, task_id: int) -> str:
    if task.user is not None:
        return f"user.{task.user}.{task.name}.v{task_id % 100}"
    return f"mc23_13p6TeV.{task_id % 100_000 + 600_000}.{task.name}.{task.kind}.e8514_s4162"


def _cpu_time(task: TaskFacts) -> tuple[int | None, str | None]:
    hs06s = task.hs06s_per_event
    if hs06s is None:
        return None, None
    if hs06s < MILLI_BELOW_HS06S:
        return round(hs06s * 1000), "mHS06sPerEvent"
    return round(hs06s), "HS06sPerEvent"


def _resource_type(facts: DemoFacts, task: TaskFacts) -> str:
    cores = task.cores or FLEXIBLE_CORES
    return resource_type_of(facts, cores, (task.ram_mb + task.base_ram_mb / cores) * RAM_COMPENSATION)


def task_row(facts: DemoFacts, clock: Clock, task_id: int, task: TaskFacts) -> Row:
    """The row of ``jedi_tasks`` of one task."""
    return {
        "jeditaskid": task_id,
        "taskname": _task_name(task, task_id),
        "status": task.status,
        "superstatus": task.status,
        "username": task.user or "atlasprd",
        "creationdate": clock.ago(hours=72),
        "modificationtime": clock.ago(hours=1),
        "starttime": clock.ago(hours=48),
        "statechangetime": clock.ago(hours=20),
        "frozentime": None if task.frozen_h is None else clock.ago(hours=task.frozen_h),
        "prodsourcelabel": task.label,
        "workinggroup": task.working_group,
        "vo": VO,
        "tasktype": "anal" if task.user else "prod",
        "processingtype": task.processing,
        "taskpriority": task.priority,
        "currentpriority": task.priority,
        "workqueue_id": share_queue_ids(facts)[task.share],
        "gshare": task.share,
        "cloud": None if task.user else "WORLD",
        "site": task.queues,
        "nucleus": None if task.waits_for_nucleus or task.user else task.nucleus,
        "parent_tid": task_id,
        "attemptnr": 1,
        "campaign": task.share,
        "framework": "panda-client" if task.user else "prodsys",
        "goal": 1000,
        **_program(task),
        **_demand(facts, task),
    }


def _program(task: TaskFacts) -> Row:
    """Columns for the program of the task and the cutting of its jobs."""
    return {
        "architecture": task.architecture,
        "transuses": None if task.user else "Atlas-24.0",
        "transhome": task.release,
        "transpath": task.transform,
        "splitrule": split_rule(task),
        "eventservice": task.event_service,
    }


def _demand(facts: DemoFacts, task: TaskFacts) -> Row:
    """Columns for the needs of one job."""
    cpu_time, cpu_unit = _cpu_time(task)
    merging = task.input == "unmerged"
    return {
        "cputime": cpu_time,
        "cputimeunit": cpu_unit,
        "cpuefficiency": CPU_EFFICIENCY_PERCENT,
        "basewalltime": BASE_WALLTIME_S,
        "corecount": task.cores,
        "resource_type": _resource_type(facts, task),
        "ramcount": task.ram_mb,
        "ramunit": "MBPerCore",
        "baseramcount": task.base_ram_mb,
        "mergeramcount": MERGE_RAM_MB if merging else None,
        "mergecorecount": 1 if merging else None,
        "outdiskcount": task.output_kb_per_event,
        "outdiskunit": "kBPerEvent",
        "workdiskcount": task.scratch_mb,
        "workdiskunit": "MB",
        "iointensity": task.io_kb_per_s,
        "iointensityunit": "kBPerS",
        "diskio": task.diskio_kb_per_s,
        "diskiounit": "kBPerS",
    }

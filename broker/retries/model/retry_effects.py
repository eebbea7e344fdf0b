"""The effect of an applicable rule on a task and on the files of a failed job. Pure.

Source: panda-server, ``task_event_module`` (increaseRamLimitJobJEDI and its kin, reduce_input_per_job),
``misc_standalone_module`` (initialize_cpu_time_task). Differences from it: files without a ramCount count as not
raised, where PanDA's function ends with an error; the parameters ``margin``, ``times`` and ``jobs`` are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from broker.domain.decisions import ColumnChange
from broker.retries.model.retry_rules import RetryRule

#: Memory steps in MB, per core or per job according to the unit of the task.
MEMORY_STEPS_MB = (1000, 2000, 3000, 4000, 6000, 8000)
#: Share of a job's memory that is requested at queues; dividing by it gives what the task requested.
MEMORY_COMPENSATION = 0.9
#: The task gets more memory if more than this share of its files already has more.
MOST_RAISED_SHARE = 0.3
_PER_CORE = ("MBPerCore", "MBPerCoreFixed")
_FIXED = "MBPerCoreFixed"
GB = 1024**3

Target = Literal["files", "task", "none"]


@dataclass(frozen=True)
class Effect(ColumnChange):
    """What a rule changes, or why it changes nothing.

    Attributes:
        target: the input files of the job, its task, or nothing.
    """

    target: Target = "none"


@dataclass(frozen=True)
class FailedJob:
    """A failed job with the facts that rules need about it and its task.

    Attributes:
        minramcount_mb, minramunit: requested memory with its unit; None: unknown.
        measured_mb: measured memory of the whole job; None: not measured.
        walltime_s: from its start to its end; None: unknown.
        events: of its primary input; None or 0: unknown.
        fsize_sum: size of all its files, in bytes.
        primary_files: files of its primary input.
        corepower: HS06 per core of its queue; None: unknown.
        maxtime_s, queue_cores: of its queue; PanDA acts only if both are known.
        raised_before: how often rules gave its input more memory.
        hits_of_task: jobs of its task that the rule at hand applied to, including this one.
    """

    pandaid: int
    jeditaskid: int
    attemptnr: int
    cores: int = 1
    minramcount_mb: int | None = None
    minramunit: str | None = None
    measured_mb: float | None = None
    walltime_s: float | None = None
    events: int | None = None
    fsize_sum: int = 0
    primary_files: int = 0
    corepower: float | None = None
    maxtime_s: int | None = None
    queue_cores: int | None = None
    raised_before: int = 0
    hits_of_task: int = 1


@dataclass(frozen=True)
class TaskFacts:
    """The task of a failed job.

    Attributes:
        ramcount_mb, ramunit, baseramcount_mb: memory that it requests.
        files, files_above, largest_ramcount_mb: primary files, those with more memory than the task, and the largest
            memory of any.
        cputime, cputimeunit, cpuefficiency_percent, basewalltime_s: its CPU time.
        splitrule: its tokens.
        finished_jobs: whether any of its jobs has finished.
    """

    ramcount_mb: int | None
    ramunit: str | None
    baseramcount_mb: int = 0
    files: int = 0
    files_above: int = 0
    largest_ramcount_mb: int | None = None
    cputime: int | None = None
    cputimeunit: str | None = None
    cpuefficiency_percent: int | None = None
    basewalltime_s: int | None = None
    splitrule: str | None = None
    finished_jobs: bool = False


def effect_of(rule: RetryRule, job: FailedJob, task: TaskFacts) -> Effect:
    """The effect of a rule on a failed job and its task."""
    if rule.action == "no_retry":
        return Effect("the error is final: its files are not tried again", {}, {"maxattempt": None}, "files")
    if rule.action == "limit_retry":
        most = rule.most_attempts
        return Effect(f"its files are tried {most} times at most", {}, {"maxattempt": most}, "files")
    if rule.action in ("increase_memory", "increase_memory_xtimes"):
        times = int(rule.parameters.get("times", "0"))
        if times and job.raised_before >= times:
            reason = f"its files had more memory {job.raised_before} times already, and are not tried again"
            return Effect(reason, {}, {"maxattempt": None}, "files")
        return _memory(rule, job, task) if rule.action == "increase_memory" else _memory_times(job, task)
    return _cpu_time(job, task) if rule.action == "increase_cputime" else _less_input(rule, job, task)


def _memory(rule: RetryRule, job: FailedJob, task: TaskFacts) -> Effect:
    if task.ramcount_mb is None:
        return Effect("the task asks for no memory that could be raised")
    cores = max(job.cores, 1)
    requested_mb = _requested_mb(job, task, task.baseramcount_mb)
    wanted = 0.0
    if "margin" in rule.parameters and job.measured_mb is not None:
        per_core = (job.measured_mb - task.baseramcount_mb) / cores if task.ramunit in _PER_CORE else job.measured_mb
        wanted = math.ceil(float(rule.parameters["margin"]) * per_core)
    if task.ramunit != _FIXED and _many_raised(task):
        least = max(requested_mb, (task.largest_ramcount_mb or 0) - 1)
        if least > 0:
            return _task_memory(task, least, wanted)
    if requested_mb >= MEMORY_STEPS_MB[-1]:
        return Effect(f"the job asked for {requested_mb:.0f} MB, and the highest step is {MEMORY_STEPS_MB[-1]} MB")
    step = int(max(next(one for one in MEMORY_STEPS_MB if requested_mb < one), wanted))
    if task.ramcount_mb > step:
        return Effect(f"the task asks for {task.ramcount_mb} MB now, more than the next step of {step} MB")
    how = f", {job.measured_mb:.0f} MB measured" if wanted and job.measured_mb is not None else ""
    reason = f"memory of its files from {requested_mb:.0f} to {step} MB{_unit(task)}{how}"
    return Effect(reason, {"ramcount": int(requested_mb)}, {"ramcount": step}, "files")


def _task_memory(task: TaskFacts, least: float, wanted: float = 0.0, *, no_limit: bool = False) -> Effect:
    """Raise the memory of the whole task to the first step above both its request and ``least``."""
    ram_mb = task.ramcount_mb or 0
    if ram_mb > least:
        return Effect(f"the task asks for {ram_mb} MB now, more than {least:.0f} MB")
    if ram_mb >= MEMORY_STEPS_MB[-1] and not no_limit:
        return Effect(f"the task asks for {ram_mb} MB, the highest step")
    limit = max(ram_mb, least)
    step: float = next((one for one in MEMORY_STEPS_MB if limit < one), MEMORY_STEPS_MB[-1])
    step = int(max(step, wanted, limit if no_limit else 0))
    share = 100 * task.files_above / task.files
    reason = f"memory of the task from {ram_mb} to {step} MB{_unit(task)}: {share:.0f} % of its files have more already"
    return Effect(reason, {"ramcount": ram_mb}, {"ramcount": step}, "task")


def _memory_times(job: FailedJob, task: TaskFacts) -> Effect:
    if not task.ramcount_mb or job.minramcount_mb is None:
        return Effect("the memory that the task or the job asked for is unknown")
    tokens = tokens_of(task.splitrule)
    requested_mb = _requested_mb(job, task, 0)
    wanted = requested_mb * _number(tokens.get("RY"), 1.0) / task.ramcount_mb
    most = _number(tokens.get("RZ"), 0.0)
    wanted = min(wanted, most / max(job.cores, 1)) if most else wanted
    if task.ramunit != _FIXED and _many_raised(task) and wanted > task.ramcount_mb:
        return _task_memory(task, wanted, no_limit=True)
    if task.ramcount_mb > wanted or requested_mb >= wanted:
        return Effect(f"{wanted:.0f} MB, by RY and RZ of its split rule, is no more than what is asked for")
    reason = f"memory of its files from {requested_mb:.0f} to {wanted:.0f} MB{_unit(task)}, by RY of its split rule"
    return Effect(reason, {"ramcount": int(requested_mb)}, {"ramcount": round(wanted)}, "files")


def _requested_mb(job: FailedJob, task: TaskFacts, base_mb: int) -> float:
    """The memory that a job requested, in the unit of its task, without the base memory."""
    if job.minramcount_mb is None:
        return 0.0
    requested = float(int(job.minramcount_mb / MEMORY_COMPENSATION) - base_mb)
    if task.ramunit in _PER_CORE and (job.minramunit or "MB").strip() == "MB":
        requested /= max(job.cores, 1)
    return requested


def _many_raised(task: TaskFacts) -> bool:
    return task.files > 0 and task.files_above / task.files > MOST_RAISED_SHARE


def _cpu_time(job: FailedJob, task: TaskFacts) -> Effect:
    scouts_again = Effect("its scouts are evaluated again", {}, {"walltimeunit": None}, "task")
    if task.finished_jobs:
        return scouts_again
    walltime_s = job.walltime_s
    if walltime_s is None or not (job.corepower and job.maxtime_s and job.queue_cores):
        return scouts_again
    if not (task.cpuefficiency_percent and task.basewalltime_s and job.events) or walltime_s < 0:
        return scouts_again
    used = (walltime_s - task.basewalltime_s) * job.corepower * max(job.cores, 1) * 1.1
    new = used / (task.cpuefficiency_percent / 100.0) / job.events * 1.5
    milli = new != 0 and new < 10
    scale = {"HS06sPerEvent": 1.0, "mHS06sPerEvent": 0.001}.get(task.cputimeunit or "")
    if task.cputime is not None and scale is not None and task.cputime * scale > new:
        return scouts_again
    after = {
        "cputime": int(new * 1000 if milli else new),
        "cputimeunit": "mHS06sPerEvent" if milli else "HS06sPerEvent",
    }
    reason = (
        f"CPU time of the task is {after['cputime']} {after['cputimeunit']}, by {walltime_s:.0f} s of the failed job"
    )
    return Effect(reason, {"cputime": task.cputime, "cputimeunit": task.cputimeunit}, after, "task")


def _less_input(rule: RetryRule, job: FailedJob, task: TaskFacts) -> Effect:
    low, middle, high = (int(one) for one in rule.parameters.get("steps", "2,4,7").split(","))
    if job.attemptnr < low:
        return Effect(f"attempt {job.attemptnr} is below {low}")
    least = int(rule.parameters.get("jobs", "1"))
    if job.hits_of_task < least:
        return Effect(f"{job.hits_of_task} of {least} jobs of the task failed so")
    tokens = tokens_of(task.splitrule)
    excluded = rule.parameters.get("excluded_rules", "nEventsPerJob,nFilesPerJob").split(",")
    for name in excluded:
        if tokens.get(_TOKENS.get(name, "")):
            return Effect(f"the task sets {name}")
    original = _original_input(tokens.get("RM"))
    gigabytes = original.get("NG") or _positive(tokens.get("NG")) or math.ceil(job.fsize_sum / GB)
    files = original.get("MF") or _positive(tokens.get("MF")) or job.primary_files
    part = 2 if job.attemptnr < middle else 4
    new = {"NG": 1, "MF": 1} if job.attemptnr >= high else {"NG": gigabytes // part, "MF": files // part}
    new = {name: max(1, value) for name, value in new.items()}
    if original.get("NG") and original.get("MF") and all(_positive(tokens.get(name)) == new[name] for name in new):
        return Effect(f"jobs have {new['NG']} GB and {new['MF']} files at most already")
    for name, value in {"RM": f"NG:{gigabytes}|MF:{files}", **new}.items():
        if tokens.get(name) != str(value):
            tokens.pop(name, None)
            tokens[name] = str(value)
    after = ",".join(f"{name}={value}" if value else name for name, value in tokens.items())
    reason = (
        f"jobs of the task have {new['NG']} GB and {new['MF']} files at most; it began with {gigabytes} and {files}"
    )
    return Effect(reason, {"splitrule": task.splitrule}, {"splitrule": after}, "task")


_TOKENS = {"nEventsPerJob": "NE", "nFilesPerJob": "NF", "nGBPerJob": "NG", "nMaxFilesPerJob": "MF",
           "nMaxEventsPerJob": "MX", "maxWalltime": "MW"}  # fmt: skip


def tokens_of(splitrule: str | None) -> dict[str, str]:
    """The tokens of a split rule in order; of equal names the first counts."""
    tokens: dict[str, str] = {}
    for piece in filter(None, (splitrule or "").split(",")):
        name, _, value = piece.strip().partition("=")
        tokens.setdefault(name, value)
    return tokens


def _original_input(text: str | None) -> dict[str, int]:
    """The input that jobs of the task had at first, as token RM stores it."""
    pairs = [piece.split(":") for piece in (text or "").split("|")]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _positive(text: str | None) -> int | None:
    value = int(text) if text is not None and text.isdecimal() else 0
    return value or None


def _number(text: str | None, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        return default


def _unit(task: TaskFacts) -> str:
    return " a core" if task.ramunit in _PER_CORE else ""

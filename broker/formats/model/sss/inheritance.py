"""Jobs of an SSS Job Object with everything that they inherit, and what contradicts itself in them. Pure.

JobDefaults, Job, TaskGroupDefaults, TaskGroup, TaskDefaults, Task: the nearer value counts. A level that has a name at
all replaces what it would inherit under that name, so that conditions which belong together stay together; variables
are merged one by one, and extensions and resources by their names. An empty element removes an inherited value.

:func:`remarks_on` lists values of one job that contradict each other, and what was assumed where the document does not
say.

Source: Scalable Systems Software Job Object Specification 3.0.3, JobDefaults and times of a job.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise

from broker.formats.model.sss import model
from broker.formats.model.sss.model import Block, Document, JobLevel, Property

MAX_INHERITED = 500_000
"""Values that the jobs of a document inherit, all together: some seconds of work."""


@dataclasses.dataclass(frozen=True)
class WholeJob:
    """A job with all that it inherits.

    Attributes:
        job: the merged level; its task groups are merged too.
        inherited: names of what came from the defaults, in their order.
        bare: whether all its requests are outside a ``Requested`` block.
        notes: what was decided in reading it.
        own: the level as it is in the document.
    """

    job: JobLevel
    inherited: tuple[str, ...]
    bare: bool
    notes: tuple[str, ...] = ()
    own: JobLevel | None = None


def whole_jobs(document: Document) -> tuple[WholeJob, ...]:
    """Every job of a document with what it inherits."""
    defaults = next(iter(document.root.of_level("JobDefaults")), None) if document.group is not None else None
    return tuple(_whole(job, defaults) for job in document.jobs)


def _whole(job: JobLevel, defaults: JobLevel | None) -> WholeJob:
    merged = job if defaults is None else merge(defaults, job)
    inherited = () if defaults is None else _inherited_names(defaults, job)
    notes: list[str] = []
    bare = merged.requested is None
    state = merged.text("JobState")
    placed = _place_bare(merged, state, notes)
    group_defaults = next(iter(merged.of_level("TaskGroupDefaults")), None)
    groups = [_whole_group(placed, group_defaults, group, state, notes) for group in merged.of_level("TaskGroup")]
    children = tuple(child for child in merged.children if child.level not in ("TaskGroup", "TaskGroupDefaults"))
    return WholeJob(dataclasses.replace(placed, children=(*children, *groups)), inherited, bare, tuple(notes), job)


def _whole_group(
    job: JobLevel, defaults: JobLevel | None, group: JobLevel, state: str | None, notes: list[str]
) -> JobLevel:
    own = group if defaults is None else merge(defaults, group)
    placed = _place_bare(own, state, notes)
    merged = dataclasses.replace(
        placed,
        requested=_merged_block(job.requested, placed.requested),
        nodes=placed.nodes or job.nodes,
        environment={**(job.environment or {}), **(placed.environment or {})} or None,
    )
    task_defaults = next(iter(merged.of_level("TaskDefaults")), None)
    tasks = tuple(task if task_defaults is None else merge(task_defaults, task) for task in merged.of_level("Task"))
    return dataclasses.replace(merged, children=tasks)


def inherited_values(document: Document) -> int:
    """How many values are inherited, over all jobs, task groups and tasks: the cost of reading the document."""
    if document.group is None:
        return sum(_cost(job, None) for job in document.jobs)
    defaults = next(iter(document.root.of_level("JobDefaults")), None)
    if defaults is None:
        return sum(_cost(job, None) for job in document.jobs)
    like_defaults = _cost(defaults, None) + _size(defaults)
    groups = len(defaults.of_level("TaskGroup"))
    return sum(_cost(job, defaults) if job.children else like_defaults + groups * _size(job) for job in document.jobs)


def _cost(job: JobLevel, defaults: JobLevel | None) -> int:
    """What a job and its task groups inherit."""
    own = 0 if defaults is None else _size(defaults)
    group_defaults = [
        child for level in (job, defaults) if level is not None for child in level.of_level("TaskGroupDefaults")
    ]
    groups = job.of_level("TaskGroup") or (() if defaults is None else defaults.of_level("TaskGroup"))
    from_job = own + _size(job) + sum(_size(child) for child in group_defaults[:1])
    of_tasks = 0
    for group in groups:
        levels = (group, *group_defaults[:1])
        task_defaults = next((child for level in levels for child in level.of_level("TaskDefaults")), None)
        of_tasks += len(group.of_level("Task")) * (1 + (0 if task_defaults is None else _size(task_defaults)))
    return own + len(groups) * (1 + from_job) + of_tasks


def _size(level: JobLevel) -> int:
    """The number of values directly in a level and in its blocks, with its variables."""
    blocks = [block for block in (level.requested, level.delivered) if block is not None]
    inside = sum(len(block.properties) + len(block.nodes) + len(block.unknown) for block in blocks)
    return len(level.properties) + len(level.nodes) + len(level.unknown) + len(level.environment or {}) + inside


def merge(far: JobLevel, near: JobLevel) -> JobLevel:
    """The level ``near`` with what it inherits from ``far``."""
    environment = {**(far.environment or {}), **(near.environment or {})}
    children = near.children if near.children else far.children
    if near.children and far.children:
        known = {child.level for child in near.children}
        children = (*(child for child in far.children if child.level not in known), *near.children)
    return dataclasses.replace(
        near,
        properties=_merged(far.properties, near.properties),
        requested=_merged_block(far.requested, near.requested),
        delivered=_merged_block(far.delivered, near.delivered),
        nodes=near.nodes or far.nodes,
        environment=environment or None,
        unknown=(*far.unknown, *near.unknown),
        children=children,
    )


def _merged(far: Sequence[Property], near: Sequence[Property]) -> tuple[Property, ...]:
    own = {prop.key for prop in near}
    inherited = [prop for prop in far if prop.key not in own and prop.name not in model.NEVER_INHERITED]
    return tuple(prop for prop in (*inherited, *near) if prop.value is not None)


def _merged_block(far: Block | None, near: Block | None) -> Block | None:
    if far is None or near is None:
        return near if far is None else far
    properties = _merged(far.properties, near.properties)
    return Block(properties, near.nodes or far.nodes, (*far.unknown, *near.unknown))


def _inherited_names(defaults: JobLevel, job: JobLevel) -> tuple[str, ...]:
    own = {prop.key for prop in job.properties}
    names = [
        prop.name
        for prop in defaults.properties
        if prop.key not in own and prop.name not in model.NEVER_INHERITED and prop.value is not None
    ]
    for name, block in (("Requested", defaults.requested), ("Delivered", defaults.delivered)):
        if block is not None:
            names.append(name)
    if defaults.environment:
        names.append("Environment")
    return tuple(dict.fromkeys(names))


def _place_bare(level: JobLevel, state: str | None, notes: list[str]) -> JobLevel:
    """Resources outside the blocks: delivered, if the job is over and has no Delivered block; else requested."""
    bare = tuple(prop for prop in level.properties if prop.name in model.RESOURCES - {"NodeCount"})
    if not bare:
        return level
    taken = {id(prop) for prop in bare}
    rest = tuple(prop for prop in level.properties if id(prop) not in taken)
    if state == "Completed" and level.delivered is None:
        notes.append("no Delivered block and state Completed: bare resources were delivered")
        return dataclasses.replace(level, properties=rest, delivered=Block(bare))
    if level.requested is None:
        if level.level == "Job":
            notes.append(f"no Requested/Delivered block and state {state or 'unknown'}: bare resources are requests")
        return dataclasses.replace(level, properties=rest, requested=Block(bare))
    named = {prop.name for prop in level.requested.properties}
    doubled = sorted({prop.name for prop in bare} & named)
    if doubled:
        notes.append(f"{', '.join(doubled)} both bare and in a block: the block counts")
    added = tuple(prop for prop in bare if prop.name not in named)
    block = dataclasses.replace(level.requested, properties=(*level.requested.properties, *added))
    return dataclasses.replace(level, properties=rest, requested=block)


WALL_TOLERANCE_S = 60
_ORDER = ("SubmissionTime", "StagedTime", "StartTime", "EndTime")


def remarks_on(whole: WholeJob) -> tuple[str, ...]:
    """Oddities of a job: times out of order, or a duration that does not fit them."""
    job = whole.job
    remarks = []
    times = [(name, value) for name in _ORDER if (value := job.integer(name)) is not None]
    for (earlier, first), (later, second) in pairwise(times):
        if first > second:
            remarks.append(f"times out of order: {earlier} is {first - second} s later than {later}")
    eligible, deadline = job.integer("EligibleTime"), job.integer("DeadlineTime")
    if eligible is not None and deadline is not None and eligible > deadline:
        remarks.append("times out of order: EligibleTime is later than DeadlineTime")
    wall_s, spent_s = delivered_wall_s(job), _spent_s(job)
    if wall_s is not None and spent_s is not None and abs(wall_s - spent_s) > WALL_TOLERANCE_S:
        remarks.append(f"delivered WallDuration {wall_s} s, but {spent_s} s from StartTime to EndTime")
    return tuple(remarks)


def delivered_wall_s(job: JobLevel) -> int | None:
    """The delivered wall time, ``None`` if it is not stated."""
    return None if job.delivered is None else wall_s_in(job.delivered)


def wall_s_in(delivered: Block) -> int | None:
    """The wall time in a ``Delivered`` block, ``None`` if it is not stated."""
    value = next((prop.value for prop in delivered.all_of("WallDuration")), None)
    return value if isinstance(value, int) else None


def _spent_s(job: JobLevel) -> int | None:
    start, end = job.integer("StartTime"), job.integer("EndTime")
    return None if start is None or end is None else end - start

"""Changes to the request of a task: by its scouts, by what its jobs used, or by tasks of its kind. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from broker.domain.decisions import ColumnChange
from broker.domain.memory_prior import MemoryPrior
from broker.domain.quantiles import KIND_PART, LearnedQuantile, enough_of_kind
from broker.domain.sizing_values import FIRST_JOBS, LAST_JOBS, PriorLimits

_UNITS = {"ramcount": "MB", "cputime": "", "walltime": "", "outdiskcount": "", "workdiskcount": "MB",
          "iointensity": "kB/s", "diskio": "kB/s"}  # fmt: skip
Source = Literal["scouts", "learned", "kind"]


@dataclass(frozen=True)
class Change(ColumnChange):
    """A change of the request of a task; the reason names the sample.

    Attributes:
        source: its ``scouts`` with PanDA's formulae, a quantile ``learned`` from its jobs, or its ``kind``.
    """

    source: Source = field(kw_only=True)


def is_due(finished: int, finished_then: int | None, *, is_requested: bool) -> bool:
    """Whether a task is due for evaluation: at 5 finished jobs, then at each doubling up to 1000, and on request.

    Args:
        finished: jobs finished so far.
        finished_then: jobs finished at the last evaluation; None if there was none.
        is_requested: whether an evaluation was requested (``walltimeunit`` is NULL).
    """
    if finished < FIRST_JOBS:
        return False
    if finished_then is None:
        return True
    return (finished >= 2 * finished_then and finished_then < LAST_JOBS) or (is_requested and finished > finished_then)


def scouts_change(task: Mapping[str, Any], values: Mapping[str, Any], finished: int) -> Change | None:
    """The change to the values of PanDA's formulae; None if nothing differs."""
    return _change("scouts", task, values, f"by PanDA's formulae from {finished} finished jobs")


def learned_change(
    task: Mapping[str, Any], learned: LearnedQuantile, rank: float, margin_percent: float
) -> Change | None:
    """The change of the memory to the learned quantile plus a margin; None if it is unknown, or nothing differs."""
    if math.isnan(learned.ask) or not _can_change(task):
        return None
    requested_mb = _with_margin(learned.ask, margin_percent)
    high = "above all" if math.isinf(learned.high) else f"{learned.high:.0f}"
    reason = (
        f"p{rank:g} of {learned.n} finished jobs and {learned.killed} killed for memory: {learned.ask:.0f} MB "
        f"(90 %: {learned.low:.0f} to {high}), p50 {learned.p50:.0f} MB, and {margin_percent:g} %"
    )
    return _change("learned", task, {"ramcount": requested_mb, "ramunit": task.get("ramunit") or "MB"}, reason)


def kind_change(task: Mapping[str, Any], asks_mb: Sequence[float], margin_percent: float) -> Change | None:
    """The change of the memory of a task without finished jobs to what tasks of its kind need; None if too few."""
    needed = enough_of_kind(asks_mb)
    if math.isnan(needed) or not _can_change(task):
        return None
    reason = (
        f"{needed:.0f} MB are enough for {KIND_PART:.0%} of {len(asks_mb)} tasks of its kind, and {margin_percent:g} %"
    )
    requested_mb = _with_margin(needed, margin_percent)
    return _change("kind", task, {"ramcount": requested_mb, "ramunit": task.get("ramunit") or "MB"}, reason)


def prior_change(
    task: Mapping[str, Any], prior: MemoryPrior | None, kind: Mapping[str, Any], limits: PriorLimits
) -> Change | None:
    """The change of the memory of a task without finished jobs to its prior; None if too few tasks, or no difference.

    Args:
        task: columns of the task.
        prior: prior of the memory; None if too few tasks are known.
        kind: the columns that tasks of its kind have in common.
        limits: limits of the request.
    """
    if prior is None or not _can_change(task):
        return None
    bounded = prior.bounded_mb(limits.least_share)
    kind_text = ", ".join(f"{name} {value}" for name, value in kind.items() if value != "")
    parts = [
        f"{tasks} tasks and {jobs} jobs of {which} need {value:.0f} MB at p{limits.rank:g}"
        for tasks, jobs, which, value in (
            (prior.kind_tasks, prior.kind_jobs, "the kind", prior.kind_mb),
            (prior.wider_tasks, prior.wider_jobs, "its processing type and cores", prior.wider_mb),
        )
        if not math.isnan(value)
    ]
    reason = (
        f"prior of kind ({kind_text}): {'; '.join(parts)}; drawn towards the request of {prior.request_mb:.0f} MB: "
        f"{prior.ask_mb:.0f} MB, plus {limits.margin_percent:g} %"
    )
    if bounded != prior.ask_mb:
        times = limits.least_share if bounded > prior.ask_mb else 1 / limits.least_share
        reason += f"; bounded by {times:g} times the request"
    requested_mb = _with_margin(bounded, limits.margin_percent)
    return _change("kind", task, {"ramcount": requested_mb, "ramunit": task.get("ramunit") or "MB"}, reason)


def _with_margin(value: float, margin_percent: float) -> int:
    """The value plus the margin in whole MB; binary rounding errors do not add one."""
    return math.ceil(value * (1.0 + margin_percent / 100.0) - 1e-6)


def _can_change(task: Mapping[str, Any]) -> bool:
    return task.get("ramunit") != "MBPerCoreFixed"


def _change(source: Source, task: Mapping[str, Any], values: Mapping[str, Any], how: str) -> Change | None:
    after = {name: value for name, value in values.items() if task.get(name) != value}
    if not after:
        return None
    before = {name: task.get(name) for name in after}
    shown = ", ".join(
        f"{name} {before[name] if before[name] is not None else 'unset'} -> {value} {_UNITS[name]}".rstrip()
        for name, value in after.items()
        if name in _UNITS
    )
    return Change(f"{shown or 'units'}: {how}", before, after, source=source)

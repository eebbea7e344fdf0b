"""The limits of timeouts and rebrokerages that a version of the tuning sets for one cycle, in seconds. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from broker.domain.instants import HOUR_S
from broker.lifecycle.model.analysis_rebrokerage import AnalysisLimits
from broker.lifecycle.model.fast_rebrokerage import FastLimits
from broker.lifecycle.model.jobs import ANALYSIS_LABELS, Job, Queue
from broker.lifecycle.model.rules import HEARTBEAT, OWN_STAGE_OUT, RULES, TimeoutRule

HIGH_PRIORITY = "TIMEOUT_HIGH_PRIORITY"
LASTSTART = "TIMEOUT_laststart"
PRODUCTION = "production"
ANALYSIS = "analysis"


class LimitReader(Protocol):
    """The tuning values that limits are made of."""

    def number(self, key: str) -> float:
        """The value of a numeric key, or its default."""
        ...


@dataclass(frozen=True)
class TimeoutLimits:
    """Limits in force.

    Attributes:
        seconds: by rule name, for the rules whose limit is a key.
        high_priority: jobs of this priority or above are of high priority.
        by_workflow_s: heartbeat limit of the workflows that have one of their own.
        production_s: heartbeat limit of all others except analysis jobs.
        analysis_s: heartbeat limit of analysis jobs.
        laststart_s: age of the last start above which a queue counts as starting nothing.
    """

    seconds: Mapping[str, float]
    high_priority: int
    by_workflow_s: Mapping[str, float]
    production_s: float
    analysis_s: float
    laststart_s: float

    def own_s(self, queue: Queue) -> float | None:
        """The heartbeat limit of the queue's workflow; None where it has none of its own."""
        return self.by_workflow_s.get(queue.workflow or "")

    def of(self, rule: TimeoutRule, job: Job, queue: Queue | None) -> float | None:
        """The limit of a rule for a job; None where the rule has none for it."""
        if rule.limit not in (HEARTBEAT, OWN_STAGE_OUT):
            return self.seconds[rule.name]
        own_s = None if queue is None else self.own_s(queue)
        if rule.limit == OWN_STAGE_OUT:
            known = queue is not None and queue.known
            return (self.production_s if own_s is None else own_s) if known else None
        if own_s is not None:
            return own_s
        return self.analysis_s if job.label in ANALYSIS_LABELS else self.production_s

    def inactive_before(self, now: datetime) -> datetime:
        """A queue whose last start is before this instant starts nothing."""
        return before(now, self.laststart_s)


def before(now: datetime, age_s: float) -> datetime:
    """``now`` less an age; ``datetime.min`` when there is no such instant."""
    try:
        return now - timedelta(seconds=age_s)
    except OverflowError:
        return datetime.min  # noqa: DTZ901 - naive UTC, as in PanDA's tables


def read_limits(
    tuning: LimitReader, own: Callable[[str, str], float | None], workflows: Iterable[str]
) -> TimeoutLimits:
    """The limits of a cycle.

    Args:
        tuning: the values in force.
        own: returns the value that was set for a family and a suffix, None when none was.
        workflows: the workflows of the queues.
    """
    heartbeats = {workflow: own(HEARTBEAT, workflow) for workflow in {*workflows, PRODUCTION, ANALYSIS}}
    fallback = tuning.number(HEARTBEAT)
    return TimeoutLimits(
        seconds={
            rule.name: tuning.number(rule.limit) * rule.unit_s
            for rule in RULES
            if rule.limit not in (HEARTBEAT, OWN_STAGE_OUT)
        },
        high_priority=int(tuning.number(HIGH_PRIORITY)),
        by_workflow_s={workflow: value * HOUR_S for workflow, value in heartbeats.items() if value is not None},
        production_s=_or(heartbeats[PRODUCTION], fallback) * HOUR_S,
        analysis_s=_or(heartbeats[ANALYSIS], fallback) * HOUR_S,
        laststart_s=tuning.number(LASTSTART) * HOUR_S,
    )


def _or(value: float | None, fallback: float) -> float:
    return fallback if value is None else value


RATIO = "FAST_REBRO_THRESHOLD_NQNR_RATIO"
FRACTION = "FAST_REBRO_THRESHOLD_NQUEUE_FRAC"
THRESHOLD = "FAST_REBRO_THRESHOLD_NQUEUE"
TIMEOUT = "ANALY_TIMEOUT"
ACTIVITY = "ANALY_ACTIVITY"
LEAST_WAIT = "ANALY_LEAST_WAIT"


class ValueSource(Protocol):
    """Where a value of the tuning comes from."""

    @property
    def key(self) -> str: ...  # noqa: D102
    @property
    def value(self) -> Any: ...  # noqa: D102
    @property
    def origin(self) -> str: ...  # noqa: D102


class TuningReader(Protocol):
    """The part of the tuning that limits are read from."""

    def number(self, key: str) -> float:
        """The value of a numeric key, or its default."""
        ...

    def source_of(self, key: str, *suffixes: str | None) -> ValueSource:
        """The value of a key, or of its family for a suffix, and where it comes from."""
        ...


def timeout_limits(tuning: TuningReader, workflows: set[str]) -> TimeoutLimits:
    """The limits of the timeout rules for these workflows of queues."""

    def own(family: str, suffix: str) -> float | None:
        source = tuning.source_of(family, suffix)
        return float(source.value) if source.origin == "config" and isinstance(source.value, int | float) else None

    return read_limits(tuning, own, workflows)


def fast_limits(tuning: TuningReader, shares: Iterable[str]) -> FastLimits:
    """The limits of fast rebrokerage; a share has a threshold only if a row sets it."""
    thresholds: dict[str | None, float] = {}
    for share in shares:
        source = tuning.source_of(THRESHOLD, share)
        if source.origin == "config" and isinstance(source.value, int | float):
            thresholds[share] = source.value
    return FastLimits(tuning.number(RATIO), tuning.number(FRACTION), thresholds)


def analysis_limits(tuning: TuningReader, groups: Iterable[str]) -> AnalysisLimits:
    """The limits of analysis rebrokerage for these working groups; a group's 0 counts as not set."""
    by_group_s = {}
    for group in groups:
        own = tuning.source_of(TIMEOUT, group)
        if own.key != TIMEOUT and own.origin == "config" and isinstance(own.value, int | float) and own.value:
            by_group_s[group] = own.value * HOUR_S
    return AnalysisLimits(
        timeout_s=tuning.number(TIMEOUT) * HOUR_S,
        by_group_s=by_group_s,
        activity_s=tuning.number(ACTIVITY) * HOUR_S,
        least_wait_s=tuning.number(LEAST_WAIT) * HOUR_S,
    )

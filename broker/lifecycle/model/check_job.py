"""One job against every rule: what fires, when, and what keeps it from firing.

The database evaluates the same table for a million jobs at once; here it is evaluated for one job, with reasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from broker.lifecycle.model.jobs import JEDI, MERGING, NEVER_MOVED, TO_BE_KILLED, Job, Queue, watcher_code
from broker.lifecycle.model.limits import TimeoutLimits, before
from broker.lifecycle.model.rules import TimeoutRule, rules_of


@dataclass(frozen=True)
class Verdict:
    """The verdict of one rule on one job.

    Attributes:
        rule: the rule.
        excused: why the rule does not cover the job, or never acts on it; empty when it does.
        since: the time of the job that its age is counted from, naive UTC; None when it is not set.
        limit_s: the limit; None where there is none.
        fires_at: the rule fires after this instant; None when it does not.
        fired: whether it fires now.
        code: the code that it would set.
    """

    rule: TimeoutRule
    excused: tuple[str, ...]
    since: datetime | None
    limit_s: float | None
    fires_at: datetime | None
    fired: bool
    code: int


def check_job(
    job: Job, queue: Queue | None, limits: TimeoutLimits, now: datetime, inactive_queue_triggered: bool = False
) -> list[Verdict]:
    """The verdicts of the rules of the job's table, in order; the first that fires is the one that acts.

    Args:
        job: the job.
        queue: its queue, None when nothing is known about it.
        limits: the limits in force.
        now: naive UTC.
        inactive_queue_triggered: another job at the queue has waited so long that the whole queue counts as
            inactive.
    """
    return [_verdict(rule, job, queue, limits, now, inactive_queue_triggered) for rule in rules_of(job.table)]


def acting(verdicts: list[Verdict]) -> Verdict | None:
    """The rule that acts now."""
    return next((verdict for verdict in verdicts if verdict.fired), None)


def _verdict(
    rule: TimeoutRule,
    job: Job,
    queue: Queue | None,
    limits: TimeoutLimits,
    now: datetime,
    inactive_queue_triggered: bool,
) -> Verdict:
    limit_s = limits.of(rule, job, queue)
    since = None if limit_s is None else _since(rule, job, before(now, limit_s), inactive_queue_triggered)
    excused = [*unmet_conditions(rule, job, limits), *(queue.exceptions if queue is not None else ())]
    if rule.inactive_queues and (queue is None or not queue.starts_nothing(limits.inactive_before(now))):
        excused.append("queue_starts_jobs")
    if limit_s is None:
        excused.append("queue_unknown")
    elif since is None:
        excused.append("time_unknown")
    if excused or since is None or limit_s is None:
        return Verdict(rule, tuple(excused), since, limit_s, None, False, _code(rule, job))
    fired = since < before(now, limit_s)
    return Verdict(rule, (), since, limit_s, _later(since, limit_s), fired, _code(rule, job))


def _since(rule: TimeoutRule, job: Job, cut: datetime, inactive_queue_triggered: bool) -> datetime | None:
    """The time that the rule counts from."""
    if rule.combined == "by_status":
        own = _time_of_state(rule, job)
        if not inactive_queue_triggered or (own is not None and own < cut):
            return own
    times = [time for clock in rule.clock if (time := job.time(clock)) is not None]
    if not times:
        return None
    return times[0] if rule.combined == "first" else min(times)


def _time_of_state(rule: TimeoutRule, job: Job) -> datetime | None:
    clock = dict(rule.clock_of).get(job.jobstatus)
    return None if clock is None else job.time(clock)


def _later(since: datetime, limit_s: float) -> datetime | None:
    try:
        return since + timedelta(seconds=limit_s)
    except OverflowError:
        return None


def unmet_conditions(rule: TimeoutRule, job: Job, limits: TimeoutLimits) -> list[str]:
    """The conditions of the rule that the job does not meet."""
    high = (job.currentpriority or 0) >= limits.high_priority
    exempts_null = rule.exempt_if_null
    checks = {
        "status": job.jobstatus in rule.statuses,
        "event_service": not job.is_event_service,
        "priority": rule.priority == "any" or high == (rule.priority == "high"),
        "label": not rule.labels or job.label in rule.labels,
        "not_made_from_task": rule.origin != "from_task" or job.lockedby == JEDI,
        "made_from_task": rule.origin != "not_from_task" or job.lockedby is None or job.is_build,
        "queue_is_fixed": not rule.exempt_if_pinned
        or (job.relocationflag != NEVER_MOVED and not (exempts_null and job.relocationflag is None)),
        "merging": not rule.exempt_if_merging
        or (job.processingtype != MERGING and not (exempts_null and job.processingtype is None)),
        "told_to_stop": not (rule.exempt_if_kill_requested and job.commandtopilot == TO_BE_KILLED),
        "no_substatus": not rule.needs_substatus or bool(job.jobsubstatus),
    }
    return [reason for reason, met in checks.items() if not met]


def _code(rule: TimeoutRule, job: Job) -> int:
    if rule.code is not None:
        return rule.code
    return watcher_code(
        job.jobstatus,
        has_ended=job.time("endtime") is not None,
        has_error=bool(job.exeerrordiag or job.piloterrordiag),
        dispatcher_diag=job.jobdispatchererrordiag,
        dispatcher_code=job.jobdispatchererrorcode,
    )

"""The timeout rules, one row each. This table is the policy; one engine evaluates it for all jobs at once.

A job is judged by the first row that it meets. Rows for jobs that have lost their pilot come first, then those for
transfers, then those that take waiting jobs back. Queues that are paused or have disableReassign are exempt from every
row, and so are jobs of the event service. Ages are compared strictly: a job of exactly the limit is left alone.
Source: ATLAS brokerage, Timeout Rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from broker.lifecycle.model.jobs import (
    EXPIRED,
    EXPIRED_WAITING,
    REASSIGNED,
    TRANSFER_TIMEOUT,
    Action,
    Clock,
    ErrorColumn,
    JobTable,
)

ACTIVE: JobTable = "jobsactive4"
DEFINED: JobTable = "jobsdefined4"

Combined = Literal["earliest", "first", "by_status"]
"""How several times of a job become one: the earliest that is set; the first that is set; that of the job's state or,
where it is not over the limit and another job at the queue is, the earliest."""

# The two limits that depend on the queue of the job; every other limit is a tuning key.
HEARTBEAT = "HEARTBEAT_TIMEOUT"
OWN_STAGE_OUT = "HEARTBEAT_TIMEOUT of transfers"

Origin = Literal["any", "from_task", "not_from_task"]


@dataclass(frozen=True)
class TimeoutRule:
    """One timeout rule, a row of the table.

    Attributes:
        name: shown to operators, kept with each action.
        title: what it says, in one line.
        table: where the job is.
        statuses: of the job.
        clock: the times of the job that its age is counted from.
        combined: how several of them are combined.
        limit: tuning key of the limit, or one of the limits that depend on the queue.
        unit_s: seconds of one unit of the key.
        action: what becomes of the job.
        code: kill code, or error code; None: depends on the job, see :mod:`broker.lifecycle.model.jobs`.
        error: for ``failed``, the column of the error code.
        priority: TIMEOUT_HIGH_PRIORITY separates high from low.
        labels: production source labels, empty for any.
        origin: whether only jobs made from tasks are covered, or only the others and builds.
        exempt_if_pinned: jobs whose queue is fixed (relocationflag 2) are left alone.
        exempt_if_merging: merge jobs are left alone.
        exempt_if_null: for these two, a job whose column is NULL is left alone as well.
        exempt_if_kill_requested: jobs that were already told to stop are left alone.
        needs_substatus: only jobs with a jobsubstatus.
        inactive_queues: only at queues that start nothing. A job is over the limit by the time of its state; once one
            is, the other jobs at the queue are judged by any of their times.
        clock_of: the time that belongs to a state, for ``by_status``.
    """

    name: str
    title: str
    table: JobTable
    statuses: tuple[str, ...]
    clock: tuple[Clock, ...]
    limit: str
    action: Action
    code: int | None
    error: ErrorColumn = "jobdispatcher"
    combined: Combined = "earliest"
    unit_s: float = 3600.0
    priority: Literal["any", "high", "low"] = "any"
    labels: tuple[str, ...] = ()
    origin: Origin = "any"
    exempt_if_pinned: bool = False
    exempt_if_merging: bool = False
    exempt_if_null: bool = False
    exempt_if_kill_requested: bool = False
    needs_substatus: bool = False
    inactive_queues: bool = False
    clock_of: tuple[tuple[str, Clock], ...] = ()


RULES: tuple[TimeoutRule, ...] = (
    # -- jobs that have lost their pilot
    TimeoutRule(
        "sent", "30 min for sent jobs",
        ACTIVE, ("sent",), ("modificationtime",), "TIMEOUT_sent", "failed", None,
    ),
    TimeoutRule(
        "holding_high", "3 hours for holding jobs of high priority",
        ACTIVE, ("holding",), ("modificationtime", "endtime"), "TIMEOUT_holding_high", "failed", None, priority="high",
    ),
    TimeoutRule(
        "holding", "2 days for other holding jobs",
        ACTIVE, ("holding",), ("modificationtime", "endtime"), "TIMEOUT_holding", "failed", None, priority="low",
    ),
    TimeoutRule(
        "heartbeat", "2 hours without heartbeat, or what the workflow of the queue says",
        ACTIVE, ("running", "starting", "stagein", "stageout"), ("modificationtime",), HEARTBEAT, "failed", None,
    ),
    # -- transfers
    TimeoutRule(
        "own_stage_out", "the timeout of heartbeats, for transfers by the workflow's own stage-out",
        ACTIVE, ("transferring",), ("modificationtime",), OWN_STAGE_OUT, "failed", None, needs_substatus=True,
    ),
    TimeoutRule(
        "transferring_high", "transtimehi days for transferring jobs of high priority",
        ACTIVE, ("transferring",), ("endtime", "starttime"), "TRANSTIMEHI", "failed", TRANSFER_TIMEOUT,
        error="taskbuffer", combined="first", unit_s=86400.0, priority="high",
    ),
    TimeoutRule(
        "transferring_low", "transtimelo days for other transferring jobs",
        ACTIVE, ("transferring",), ("endtime", "starttime"), "TRANSTIMELO", "failed", TRANSFER_TIMEOUT,
        error="taskbuffer", combined="first", unit_s=86400.0, priority="low",
    ),
    # -- jobs that run without end are told to stop; their pilots report when they have
    TimeoutRule(
        "running", "21 days for running jobs",
        ACTIVE, ("running",), ("starttime", "creationtime"), "TIMEOUT_running", "killed", EXPIRED,
        combined="first", exempt_if_kill_requested=True,
    ),
    # -- waiting jobs are taken back: the shorter limit of inactive queues first
    TimeoutRule(
        "inactive_queue", "4 hours for activated or starting jobs of high priority at queues that start nothing",
        ACTIVE, ("activated", "starting"), ("modificationtime", "statechangetime"), "TIMEOUT_inactive",
        "reassigned", REASSIGNED, combined="by_status", priority="high", labels=("managed",), origin="from_task",
        exempt_if_pinned=True, exempt_if_merging=True, exempt_if_null=True, inactive_queues=True,
        clock_of=(("activated", "modificationtime"), ("starting", "statechangetime")),
    ),
    TimeoutRule(
        "activated", "2 days for activated jobs",
        ACTIVE, ("activated",), ("modificationtime",), "TIMEOUT_activated",
        "reassigned", REASSIGNED, labels=("managed",), origin="from_task", exempt_if_pinned=True,
    ),
    TimeoutRule(
        "starting", "2 days for starting jobs",
        ACTIVE, ("starting",), ("statechangetime",), "TIMEOUT_starting",
        "reassigned", REASSIGNED, labels=("managed",), origin="from_task", exempt_if_pinned=True,
    ),
    TimeoutRule(
        "throttled", "7 days for throttled jobs",
        ACTIVE, ("throttled",), ("creationtime",), "TIMEOUT_throttled", "killed", EXPIRED,
    ),
    TimeoutRule(
        "pending", "1 hour for pending jobs",
        DEFINED, ("pending",), ("creationtime",), "TIMEOUT_pending", "killed", EXPIRED_WAITING,
    ),
    TimeoutRule(
        "defined", "4 hours for defined jobs",
        DEFINED, ("defined",), ("modificationtime",), "TIMEOUT_defined",
        "reassigned", REASSIGNED, labels=("managed", "test"), origin="from_task",
    ),
    TimeoutRule(
        "defined_other", "4 hours for defined jobs that were not made from a task, and for builds",
        DEFINED, ("defined",), ("creationtime",), "TIMEOUT_defined", "killed", EXPIRED, origin="not_from_task",
    ),
    TimeoutRule(
        "assigned", "12 hours for assigned jobs",
        DEFINED, ("assigned",), ("modificationtime",), "TIMEOUT_assigned",
        "reassigned", REASSIGNED, labels=("managed",), origin="from_task",
    ),
)  # fmt: skip


def rules_of(table: JobTable) -> tuple[TimeoutRule, ...]:
    """The rules for the jobs of a table, in order."""
    return tuple(rule for rule in RULES if rule.table == table)

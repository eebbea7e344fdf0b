"""The verbs of tasks for every interface: kill, finish, retry, pause, resume, reassign, priority, try-now.

The state of the task changes in one transaction, under the lock of its row; jobs end afterwards, batch by batch. See
``docs/adr/0043-verbs-of-tasks.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel

from agents.tasks.task_commands import JOBS_OF_A_BATCH, acting, carry_out_batch, end_tasks
from broker.domain.instants import naive
from broker.formats.statements.sss_exchange import NotOurTables
from broker.store.connection.database import Database
from broker.store.connection.tables import Names
from broker.store.schema import migrate
from broker.tasks.model import verbs
from broker.tasks.model.catalogue import HONOURED
from broker.tasks.model.task import DEFAULT_ATTEMPTS
from broker.tasks.model.verbs import NotYours, Target, Verb, WrongState
from broker.tasks.statements import task_verbs as statements
from broker.tasks.statements.known_names import check_name
from broker.tasks.statements.task_verbs import Command, LockedTask, Record

AGENT = "task_verbs"
"""Agent that is recorded with the actions on jobs that a verb carries out itself."""
BUSY = "another process writes to it now; the agent completion ends it in its next cycle"
"""Note on a task that has no work left, but could not be ended at once."""


@dataclass(frozen=True)
class Actor:
    """Who acts on a task.

    Attributes:
        editor: the name for the audit.
        username: the user whose tasks are the actor's own; None if unknown.
        is_operator: may act on every task.
    """

    editor: str
    username: str | None = None
    is_operator: bool = False

    def check(self, task: LockedTask) -> None:
        """Refuse a task of somebody else.

        Raises:
            NotYours: the task is not the actor's own.
        """
        if not self.is_operator and (self.username is None or self.username != task.username):
            raise NotYours(f"task {task.jeditaskid} is not yours", "jedi_tasks", "ask its owner, or an operator")


@dataclass(frozen=True)
class VerbRequest:
    """A request to act on a task.

    Attributes:
        verb: what to do.
        task: the task (jeditaskid).
        reason: why, for the history.
        soft: ``finish``: existing jobs go on.
        new_parameters: ``retry``: task parameters that change.
        target: ``reassign``: where the task goes.
        priority: ``priority``: the new priority.
    """

    verb: Verb
    task: int
    reason: str = ""
    soft: bool = False
    new_parameters: Mapping[str, Any] = field(default_factory=dict)
    target: Target = field(default_factory=Target)
    priority: int = 0


class TaskActedOn(BaseModel):
    """The effect of a verb on a task.

    Attributes:
        old_status: previous status of the task.
        status: new status of the task.
        files: number of input files given new attempts.
        jobs: number of jobs that ended, or whose priority changed.
        told: number of running jobs whose pilots are instructed to stop at their next report.
        left: whether jobs remain, which the agent completion ends.
        notes: notes for the caller.
    """

    jeditaskid: int
    verb: str
    old_status: str
    status: str
    files: int = 0
    jobs: int = 0
    told: int = 0
    left: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Change:
    """How a verb changes the state of a task, within its transaction."""

    status: str
    oldstatus: str | None = None
    moves: bool = True
    detail: Mapping[str, Any] = field(default_factory=dict)
    ends: statements.Ends | None = None
    kept_queues: tuple[str, ...] = ()
    files: int = 0
    jobs: int = 0
    notes: tuple[str, ...] = ()


def act_on_task(
    database: Database, request: VerbRequest, by: Actor, now: datetime, most_jobs: int = 10 * JOBS_OF_A_BATCH
) -> TaskActedOn:
    """Carry out a verb on a task; at most ``most_jobs`` end at once, the agent completion ends the others.

    Raises:
        NotOurTables: alongside PanDA.
        NotFound: there is no such task.
        NotYours: it is somebody else's.
        WrongState: the verb makes no sense in the present state of the task.
        WrongVerb: an argument of the verb cannot be used.
        BadParameter: a new parameter cannot be used.
    """
    if migrate.check(database) != migrate.STANDALONE:
        what = f"the tasks belong to a PanDA installation, which {request.verb} is asked of"
        raise NotOurTables(what, repr(database), f"use PanDA's own commands: pbook, or its API /task/{request.verb}")
    stamp = naive(now)
    with database.begin() as connection:
        task = statements.lock_task(connection, database.names, request.task)
        by.check(task)
        verbs.check_state(request.verb, request.task, task.status)
        change = _CHANGES[request.verb](_VerbContext(connection, database.names, task, request, by, stamp))
        message = "; ".join(part for part in (f"{request.verb} by {by.editor}", request.reason) if part)
        if change.moves:
            statements.move(connection, database.names, request.task, change.status, message, stamp, change.oldstatus)
        record = Record(
            request.verb, by.editor, request.reason, task.status, change.status, change.detail, change.ends,
            change.kept_queues,
        )  # fmt: skip
        command = statements.record(connection, database.names, request.task, record, stamp)
    jobs, stop_requests, left = (0, 0, False) if command is None else _carry_out(database, command, now, most_jobs)
    status, notes = change.status, change.notes
    if status in ("aborting", "finishing") and not left:
        with database.begin() as connection:
            ended, busy = end_tasks(connection, database.names, now, 1, [request.task])
        status = str(ended[0].status) if ended else status
        notes += (BUSY,) if busy else ()
    return TaskActedOn(
        jeditaskid=request.task,
        verb=request.verb,
        old_status=task.status,
        status=status,
        files=change.files,
        jobs=change.jobs + jobs,
        told=stop_requests,
        left=left,
        notes=notes,
    )


def _carry_out(database: Database, command: Command, now: datetime, most: int) -> tuple[int, int, bool]:
    """End jobs; returns how many ended, how many running ones are told to stop, and whether some are left."""
    with database.read_snapshot() as connection:
        by = acting(connection, database.names, AGENT, None, now)
    jobs = stop_requests = 0
    skipped: list[int] = []
    while jobs + stop_requests + len(skipped) < most:
        with database.begin() as connection:
            ended = carry_out_batch(connection, command, by, skipped, min(JOBS_OF_A_BATCH, most))
        jobs, stop_requests = jobs + ended.jobs, stop_requests + ended.stop_requests
        skipped += ended.skipped
        if ended.is_last or not (ended.jobs or ended.stop_requests):
            return jobs, stop_requests, not ended.is_last
    return jobs, stop_requests, True


@dataclass(frozen=True)
class _VerbContext:
    """All that a verb needs, in the transaction that holds the lock on the task."""

    connection: sa.Connection
    names: Names
    task: LockedTask
    request: VerbRequest
    by: Actor
    now: datetime


def _kill(context: _VerbContext) -> _Change:
    return _Change("aborting", ends="all")


def _finish(context: _VerbContext) -> _Change:
    return _Change("finishing", detail={"soft": context.request.soft}, ends=None if context.request.soft else "all")


def _retry(context: _VerbContext) -> _Change:
    """Give new attempts to files that have none left; a task that has ended starts another attempt."""
    task, new_parameters = context.task, verbs.read_new_parameters(context.request.new_parameters)
    if "site" in new_parameters:
        check_name(context.connection, context.names, "site", str(new_parameters["site"]))
    before = statements.read_parameters(context.connection, context.names, task.jeditaskid)
    columns = verbs.new_columns(new_parameters)
    rule = verbs.new_split_rule(task.splitrule, new_parameters, is_pseudo=task.is_pseudo)
    if rule != task.splitrule and any(HONOURED[name].kind == "token" for name in new_parameters):
        columns["splitrule"] = rule
    if new_parameters:
        statements.set_parameters(context.connection, context.names, task.jeditaskid, new_parameters, columns)
    attempts = int(new_parameters.get("maxAttempt", before.get("maxAttempt") or DEFAULT_ATTEMPTS))
    failures = new_parameters.get("maxFailure", before.get("maxFailure"))
    files = statements.give_again(context.connection, context.names, task.jeditaskid, attempts, failures, context.now)
    detail = {
        "new_parameters": new_parameters,
        "was": {name: before.get(name) for name in new_parameters},
        "files": files,
    }
    has_ended = task.status in ("aborted", "failed", "finished", "exhausted")
    if not has_ended:
        if not files and not new_parameters:
            what = f"task {task.jeditaskid} is {task.status} and no file of it is without an attempt left"
            raise WrongState(what, "retry", "there is nothing to retry; see broker jobs --task")
        waits = task.status == "pending"
        status = statements.working_status(task) if waits else task.status
        return _Change(status, moves=waits, detail=detail, files=files)
    status = statements.first_status(task)
    statements.run_again(context.connection, context.names, task.jeditaskid, status, context.now)
    statements.look_now(context.connection, task.jeditaskid, context.now)
    return _Change(status, detail=detail, files=files)


def _pause(context: _VerbContext) -> _Change:
    return _Change(
        "paused", oldstatus=statements.working_status(context.task) if context.task.oldstatus else context.task.status
    )


def _resume(context: _VerbContext) -> _Change:
    return _Change(statements.working_status(context.task))


def _reassign(context: _VerbContext) -> _Change:
    """Write a queue into the task; a nucleus is judged by the task brokerage like any other."""
    task, target = context.task, context.request.target.checked()
    if target.site is not None:
        check_name(context.connection, context.names, "site", target.site)
        queues = tuple(name.strip() for name in target.site.split(","))
        statements.set_columns(context.connection, context.names, task.jeditaskid, {"site": ",".join(queues)})
        waits = task.status in ("pending", "exhausted")
        status = statements.working_status(task) if waits else task.status
        detail = {"site": ",".join(queues)}
        return _Change(status, moves=waits, detail=detail, ends="waiting", kept_queues=queues)
    if task.prodsourcelabel in verbs.ANALYSIS_LABELS:
        what = f"task {task.jeditaskid} is of label {task.prodsourcelabel}, whose tasks have no nucleus"
        raise verbs.WrongVerb(what, "reassign", "name a site (queues)")
    if target.nucleus is not None:
        check_name(context.connection, context.names, "nucleus", target.nucleus)
    statements.set_columns(
        context.connection, context.names, task.jeditaskid, {"nucleus": target.nucleus, "site": None}
    )
    status = "registered" if task.waits_for_input else "assigning"
    return _Change(status, detail={"nucleus": target.nucleus, "was": task.nucleus}, ends="waiting")


def _priority(context: _VerbContext) -> _Change:
    verbs.check_priority(context.request.priority, context.task.taskpriority, is_operator=context.by.is_operator)
    jobs = statements.set_priority(context.connection, context.names, context.task.jeditaskid, context.request.priority)
    detail = {"priority": context.request.priority, "was": context.task.currentpriority}
    return _Change(context.task.status, moves=False, detail=detail, jobs=jobs)


def _try_now(context: _VerbContext) -> _Change:
    task = context.task
    datasets = statements.look_now(context.connection, task.jeditaskid, context.now)
    if task.status in ("pending", "throttled"):
        return _Change(statements.working_status(task))
    if task.status == "assigning":
        return _Change("assigning")
    note = f"{datasets} datasets are looked at" if datasets else "it is looked at in every cycle"
    return _Change(task.status, moves=False, notes=(note,))


_CHANGES = {
    "kill": _kill,
    "finish": _finish,
    "retry": _retry,
    "pause": _pause,
    "resume": _resume,
    "reassign": _reassign,
    "priority": _priority,
    "try-now": _try_now,
}


def verb_history(database: Database, task: int) -> Sequence[Any]:
    """The verbs that were requested for a task, the oldest first: rows of ``broker.task_verbs``."""
    with database.read_snapshot() as connection:
        return statements.read_verbs(connection, task)

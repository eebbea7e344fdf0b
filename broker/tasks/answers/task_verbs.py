"""What people ask of tasks: kill, finish, retry, pause, resume, reassign, priority, try-now; for every interface.

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
"""Named with the actions on jobs that a verb carries out itself."""


@dataclass(frozen=True)
class Actor:
    """Who asks.

    Attributes:
        editor: the name for the audit.
        username: whose tasks are the own; None where nothing says so.
        is_operator: may act on every task.
    """

    editor: str
    username: str | None = None
    is_operator: bool = False

    def check(self, task: LockedTask) -> None:
        """Refuse a task of somebody else.

        Raises:
            NotYours: it is one.
        """
        if not self.is_operator and (self.username is None or self.username != task.username):
            raise NotYours(f"task {task.jeditaskid} is not yours", "jedi_tasks", "ask its owner, or an operator")


@dataclass(frozen=True)
class Asked:
    """What is asked of a task.

    Attributes:
        verb: what.
        task: of which (jeditaskid).
        reason: why, for the history.
        soft: ``finish``: jobs that are there go on.
        new_parameters: ``retry``: task parameters that change.
        target: ``reassign``: where to.
        priority: ``priority``: which.
    """

    verb: Verb
    task: int
    reason: str = ""
    soft: bool = False
    new_parameters: Mapping[str, Any] = field(default_factory=dict)
    target: Target = field(default_factory=Target)
    priority: int = 0


class TaskActedOn(BaseModel):
    """What a verb did to a task.

    Attributes:
        old_status: of the task, before.
        status: of the task, after.
        files: input files that were given new attempts.
        jobs: jobs that ended, or got another priority.
        told: running jobs whose pilots are told to stop with their next report.
        left: whether jobs are left, which the agent completion ends.
        notes: what the asker should know.
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
    """What a verb makes of the state of a task, within its transaction."""

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
    database: Database, asked: Asked, by: Actor, now: datetime, most_jobs: int = 10 * JOBS_OF_A_BATCH
) -> TaskActedOn:
    """Do what is asked of a task; ``most_jobs`` end at once, the others with the agent completion.

    Raises:
        NotOurTables: alongside PanDA.
        NotFound: there is no such task.
        NotYours: it is somebody else's.
        WrongState: the verb makes no sense in the state that it is in.
        WrongVerb: what is given with the verb cannot be used.
        BadParameter: a new parameter cannot be used.
    """
    if migrate.check(database) != migrate.STANDALONE:
        what = f"the tasks belong to a PanDA installation, which {asked.verb} is asked of"
        raise NotOurTables(what, repr(database), f"use PanDA's own commands: pbook, or its API /task/{asked.verb}")
    stamp = naive(now)
    with database.begin() as connection:
        task = statements.lock_task(connection, database.names, asked.task)
        by.check(task)
        verbs.check_state(asked.verb, asked.task, task.status)
        change = _CHANGES[asked.verb](_Asking(connection, database.names, task, asked, by, stamp))
        said = "; ".join(part for part in (f"{asked.verb} by {by.editor}", asked.reason) if part)
        if change.moves:
            statements.move(connection, database.names, asked.task, change.status, said, stamp, change.oldstatus)
        made = Record(
            asked.verb, by.editor, asked.reason, task.status, change.status, change.detail, change.ends,
            change.kept_queues,
        )  # fmt: skip
        command = statements.record(connection, database.names, asked.task, made, stamp)
    jobs, told, left = (0, 0, False) if command is None else _carry_out(database, command, now, most_jobs)
    status = change.status
    if status in ("aborting", "finishing") and not left:
        with database.begin() as connection:
            ended = end_tasks(connection, database.names, now, 1, [asked.task])
        status = str(ended[0].status) if ended else status
    return TaskActedOn(
        jeditaskid=asked.task,
        verb=asked.verb,
        old_status=task.status,
        status=status,
        files=change.files,
        jobs=change.jobs + jobs,
        told=told,
        left=left,
        notes=change.notes,
    )


def _carry_out(database: Database, command: Command, now: datetime, most: int) -> tuple[int, int, bool]:
    """Jobs that ended, running ones that are told to stop, and whether some are left."""
    with database.read_snapshot() as connection:
        by = acting(connection, database.names, AGENT, None, now)
    jobs = told = 0
    skipped: list[int] = []
    while jobs + told + len(skipped) < most:
        with database.begin() as connection:
            ended = carry_out_batch(connection, command, by, skipped, min(JOBS_OF_A_BATCH, most))
        jobs, told = jobs + ended.jobs, told + ended.told
        skipped += ended.skipped
        if ended.is_last or not (ended.jobs or ended.told):
            return jobs, told, not ended.is_last
    return jobs, told, True


@dataclass(frozen=True)
class _Asking:
    """All that a verb needs: in the transaction that has the task locked."""

    connection: sa.Connection
    names: Names
    task: LockedTask
    asked: Asked
    by: Actor
    now: datetime


def _kill(one: _Asking) -> _Change:
    return _Change("aborting", ends="all")


def _finish(one: _Asking) -> _Change:
    return _Change("finishing", detail={"soft": one.asked.soft}, ends=None if one.asked.soft else "all")


def _retry(one: _Asking) -> _Change:
    """Files without an attempt left get new ones; a task that has ended begins another attempt."""
    task, given = one.task, verbs.read_new_parameters(one.asked.new_parameters)
    if "site" in given:
        check_name(one.connection, one.names, "site", str(given["site"]))
    before = statements.read_parameters(one.connection, one.names, task.jeditaskid)
    columns = verbs.new_columns(given)
    rule = verbs.new_split_rule(task.splitrule, given, is_pseudo=task.is_pseudo)
    if rule != task.splitrule and any(HONOURED[name].kind == "token" for name in given):
        columns["splitrule"] = rule
    if given:
        statements.set_parameters(one.connection, one.names, task.jeditaskid, given, columns)
    attempts = int(given.get("maxAttempt", before.get("maxAttempt") or DEFAULT_ATTEMPTS))
    failures = given.get("maxFailure", before.get("maxFailure"))
    files = statements.give_again(one.connection, one.names, task.jeditaskid, attempts, failures, one.now)
    detail = {"new_parameters": given, "was": {name: before.get(name) for name in given}, "files": files}
    has_ended = task.status in ("aborted", "failed", "finished", "exhausted")
    if not has_ended:
        if not files and not given:
            what = f"task {task.jeditaskid} is {task.status} and no file of it is without an attempt left"
            raise WrongState(what, "retry", "there is nothing to retry; see broker jobs --task")
        waits = task.status == "pending"
        status = statements.working_status(task) if waits else task.status
        return _Change(status, moves=waits, detail=detail, files=files)
    status = statements.first_status(task)
    statements.run_again(one.connection, one.names, task.jeditaskid, status, one.now)
    statements.look_now(one.connection, task.jeditaskid, one.now)
    return _Change(status, detail=detail, files=files)


def _pause(one: _Asking) -> _Change:
    return _Change("paused", oldstatus=statements.working_status(one.task) if one.task.oldstatus else one.task.status)


def _resume(one: _Asking) -> _Change:
    return _Change(statements.working_status(one.task))


def _reassign(one: _Asking) -> _Change:
    """A queue is written into the task; a nucleus is looked at by the task brokerage like any other."""
    task, target = one.task, one.asked.target.checked()
    if target.site is not None:
        check_name(one.connection, one.names, "site", target.site)
        queues = tuple(name.strip() for name in target.site.split(","))
        statements.set_columns(one.connection, one.names, task.jeditaskid, {"site": ",".join(queues)})
        waits = task.status in ("pending", "exhausted")
        status = statements.working_status(task) if waits else task.status
        detail = {"site": ",".join(queues)}
        return _Change(status, moves=waits, detail=detail, ends="waiting", kept_queues=queues)
    if task.prodsourcelabel in verbs.ANALYSIS_LABELS:
        what = f"task {task.jeditaskid} is of label {task.prodsourcelabel}, whose tasks have no nucleus"
        raise verbs.WrongVerb(what, "reassign", "name a site (queues)")
    if target.nucleus is not None:
        check_name(one.connection, one.names, "nucleus", target.nucleus)
    statements.set_columns(one.connection, one.names, task.jeditaskid, {"nucleus": target.nucleus, "site": None})
    status = "registered" if task.waits_for_input else "assigning"
    return _Change(status, detail={"nucleus": target.nucleus, "was": task.nucleus}, ends="waiting")


def _priority(one: _Asking) -> _Change:
    verbs.check_priority(one.asked.priority, one.task.taskpriority, is_operator=one.by.is_operator)
    jobs = statements.set_priority(one.connection, one.names, one.task.jeditaskid, one.asked.priority)
    detail = {"priority": one.asked.priority, "was": one.task.currentpriority}
    return _Change(one.task.status, moves=False, detail=detail, jobs=jobs)


def _try_now(one: _Asking) -> _Change:
    task = one.task
    looked_at = statements.look_now(one.connection, task.jeditaskid, one.now)
    if task.status in ("pending", "throttled"):
        return _Change(statements.working_status(task))
    if task.status == "assigning":
        return _Change("assigning")
    note = f"{looked_at} datasets are looked at" if looked_at else "it is looked at in every cycle"
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


def asked_of(database: Database, task: int) -> Sequence[Any]:
    """What was asked of a task, the oldest first: rows of ``broker.task_verbs``."""
    with database.read_snapshot() as connection:
        return statements.read_verbs(connection, task)

"""Jobs given to pilots, and reports of pilots about them, each in transactions of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from broker.domain.instants import naive
from broker.errors import BrokerError
from broker.pilots.model.codes import NO_COMMAND
from broker.pilots.model.job_answer import job_answer
from broker.pilots.model.job_report import JobReport
from broker.pilots.model.job_request import JobRequest, conditions_of
from broker.pilots.model.job_transition import Transition, transition
from broker.pilots.statements.job_giving import (
    GivenJob,
    note_given,
    presented,
    read_given,
    read_node,
    read_queue,
)
from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.job_reports import read_state, read_statuses, write_transition
from broker.pilots.statements.matches import Match, NoMatch
from broker.pilots.statements.pilot_activity import note_request
from broker.pilots.statements.presented_nodes import NodeNotes, write_nodes
from broker.pilots.statements.task_queue_views import Views
from broker.pilots.statements.waiting_group_reads import SharedGroups
from broker.store.connection.database import Database
from broker.store.connection.tables import Names
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.tasks.answers.job_parameters import job_parameters

LIMIT_S = 10.0
"""A request ends after this time, whatever the database does."""
_LIMITS = sa.text("SET LOCAL lock_timeout = '3s'; SET LOCAL idle_in_transaction_session_timeout = '10s'")
_NOW = sa.text("SELECT clock_timestamp()")


@dataclass(frozen=True)
class AcquiredJobs:
    """The jobs that a pilot gets, as it reads them, and why there are no more; None: it got as many as requested."""

    jobs: tuple[dict[str, Any], ...]
    missed: NoMatch | None


class ViewShelf:
    """The views that matchers keep between requests; each request takes one that nobody else uses.

    Attributes:
        notes: the nodes that pilots presented, for all requests.
    """

    def __init__(self) -> None:
        self.notes = NodeNotes()
        self._groups = SharedGroups()
        self._free: list[Views] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[Views]:
        """Borrow a free one, or a new one."""
        with self._lock:
            views = self._free.pop() if self._free else Views(self._groups)
        try:
            yield views
        finally:
            with self._lock:
                self._free.append(views)


def acquire(database: Database, shelf: ViewShelf, request: JobRequest, generator: np.random.Generator) -> AcquiredJobs:
    """Give jobs to a pilot: each job is ``sent`` and recorded in one transaction, exactly once.

    Raises:
        DatabaseUnavailable: there was no answer in time; jobs given before are lost until they time out.
    """
    jobs: list[dict[str, Any]] = []
    with shelf.borrowed() as views, database.within(LIMIT_S) as limited:
        for number in range(request.jobs):
            with limited.begin() as connection:
                answer = _acquire_one(connection, database, views, request, generator, number, shelf.notes)
            if isinstance(answer, NoMatch):
                break
            jobs.append(answer)
        _write_nodes(limited, shelf.notes)
    return AcquiredJobs(tuple(jobs), answer if isinstance(answer, NoMatch) else None)


def _write_nodes(database: Database, notes: NodeNotes) -> None:
    """Write which nodes asked, in parts. If that fails they are left out: the jobs that were given matter more."""
    rows = notes.due()
    if rows is not None:
        with contextlib.suppress(BrokerError, *TRANSIENT_ERRORS), database.begin() as connection:
            write_nodes(Database.raw(connection), rows)


def update(database: Database, report: JobReport, may_report: Callable[[str | None], bool]) -> Transition:
    """Apply a report of a job; ``may_report``: whether the pilot may report jobs at a queue.

    Raises:
        DatabaseUnavailable: there was no answer in time.
    """
    with database.within(LIMIT_S) as limited, limited.begin() as connection:
        connection.execute(_LIMITS)
        now = _now(connection)
        state = read_state(connection, database.names, report.pandaid)
        if state is not None and not may_report(state.queue):
            return Transition("other_queue")
        change = transition(state, report, naive(now))
        write_transition(connection, database.names, report, change, now)
        place = report.queue or (None if state is None else state.queue)
        if state is not None and place is not None and place == state.queue:
            note_request(connection, place, report.columns.get("modificationhost"), "updatejob", now)
    return change


def statuses(database: Database, pandaids: list[int]) -> dict[int, tuple[str, int]]:
    """Status and attempt of jobs that pilots have had, by number."""
    with database.within(LIMIT_S) as limited, limited.read_snapshot() as connection:
        return read_statuses(connection, database.names, pandaids)


def legacy_command(change: Transition) -> str:
    """The command in the form of the older interface: a text, even where there is none."""
    return change.command or NO_COMMAND


def _acquire_one(
    connection: sa.Connection,
    database: Database,
    views: Views,
    request: JobRequest,
    generator: np.random.Generator,
    number: int,
    notes: NodeNotes,
) -> dict[str, Any] | NoMatch:
    connection.execute(_LIMITS)
    now, names = _now(connection), database.names
    queue = read_queue(connection, names, request)
    request = request.at_queue_in(queue.status)
    matcher = Matcher(Database.raw(connection), names, generator, views, conditions_of(request))
    hardware = read_node(connection, names, queue.site, request)
    pilot = presented(request, queue, hardware)
    if not number and queue.known:
        notes.note(pilot, now)
    outcome = matcher.match(pilot, now)
    node = request.node if request.jobs == 1 else f"{request.node or ''}_{number}"
    if queue.known:
        note_request(connection, request.queue, node, "getjob", now)
    if not isinstance(outcome, Match):
        if queue.known:
            note_request(connection, request.queue, node, "nojob", now)
        return outcome
    note_given(connection, names, outcome.pandaid, request, now)
    given = given_job(connection, names, outcome.pandaid)
    return job_answer(given.columns, given.files, given.parameters)


def given_job(connection: sa.Connection, names: Names, pandaid: int) -> GivenJob:
    """Read the job with all that its pilot needs; a job of a refined task with its template filled."""
    job = read_given(connection, names, pandaid)
    filled = job_parameters(connection, names, job.columns)
    return job if filled is None else replace(job, parameters=filled)


def _now(connection: sa.Connection) -> datetime:
    now: datetime = connection.execute(_NOW).scalar_one()
    return now

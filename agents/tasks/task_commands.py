"""Ends the jobs of tasks that were killed, finished or reassigned, batch by batch.

The verb itself ends the first ones; the leader of the agent ``completion`` ends the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.domain.instants import naive
from broker.lifecycle.model.jobs import KILLED_WITH_TASK, REASSIGNED, TASK_FINISHED
from broker.lifecycle.statements.actions import ActionContext, JobAction, act
from broker.lifecycle.statements.task_ends import TaskChange, read_ending, write_ending
from broker.store.connection.tables import Names, TableCatalogue
from broker.tasks.statements.task_verbs import Command, close_command, grant_attempts, jobs_to_end

JOBS_OF_A_BATCH = 1000
_CODES = {"kill": KILLED_WITH_TASK, "finish": TASK_FINISHED, "reassign": REASSIGNED}


def acting(connection: sa.Connection, names: Names, agent: str, run_id: int | None, now: datetime) -> ActionContext:
    """The context for ending jobs in a standalone installation; ``now``: aware."""
    return ActionContext(TableCatalogue.read(connection, names), agent, run_id, now, standalone=True)


@dataclass(frozen=True)
class BatchOutcome:
    """The outcome of a batch.

    Attributes:
        jobs: jobs that ended.
        stop_requests: running jobs whose pilots are told to stop.
        skipped: jobs that had changed meanwhile; they are checked again later.
        is_last: nothing is left of the command.
    """

    jobs: int
    stop_requests: int
    skipped: tuple[int, ...]
    is_last: bool


def carry_out_batch(
    connection: sa.Connection,
    command: Command,
    by: ActionContext,
    skipped: Sequence[int] = (),
    most: int = JOBS_OF_A_BATCH,
) -> BatchOutcome:
    """End the next jobs of a command in the caller's transaction; the command is closed when none is left."""
    names = by.catalogue.names
    rows = jobs_to_end(connection, names, command, skipped, most)
    moves = [_action(command, row) for row in rows]
    is_moved = command.verb == "reassign"
    if is_moved:
        grant_attempts(connection, names, command.jeditaskid, [move.pandaid for move in moves], 1)
    outcome = act(connection, moves, by)
    if is_moved and outcome.skipped:
        grant_attempts(connection, names, command.jeditaskid, outcome.skipped, -1)
    stop_requests = {move.pandaid for move in moves if move.keeps_row}.intersection(outcome.acted)
    is_last = len(rows) < most and not (skipped or outcome.skipped)
    if is_last:
        close_command(connection, command, naive(by.now))
    return BatchOutcome(len(outcome.acted) - len(stop_requests), len(stop_requests), outcome.skipped, is_last)


def end_tasks(
    connection: sa.Connection, names: Names, now: datetime, most: int, tasks: Sequence[int] | None = None
) -> tuple[list[TaskChange], list[TaskChange]]:
    """End the tasks that have no work left, in the caller's transaction.

    Returns those that ended, and those that another transaction had locked, which the agent ``completion`` ends later.
    """
    changes = read_ending(connection, names, most, tasks)
    ended = write_ending(connection, names, changes, now)
    numbers = {change.jeditaskid for change in ended}
    return ended, [change for change in changes if change.jeditaskid not in numbers]


def _action(command: Command, row: Any) -> JobAction:
    return JobAction(
        row.pandaid,
        row.in_table,
        row.jobstatus,
        row.modificationtime,
        row.computingsite,
        command.jeditaskid,
        f"task_{command.verb}",
        "reassigned" if command.verb == "reassign" else "killed",
        _CODES[command.verb],
        detail={"task_verb": command.id},
    )

"""What the agents that take jobs back have in common: in which order, and how it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from agents.service import fault_points
from agents.service.base import CycleContext
from broker.formats.model.vacate import least_waste_first
from broker.formats.statements import status_reports
from broker.lifecycle.model.waiting_jobs import WaitingJob, youngest_first
from broker.lifecycle.statements.actions import ActionContext, JobAction, act

JOBS_OF_A_BATCH = 1000


def least_loss_first(connection: sa.Connection, jobs: Sequence[WaitingJob], now: datetime) -> list[int]:
    """The order in which jobs are taken back: never started before started, then reported waste, then the youngest."""
    stats = status_reports.stats(connection, [job.pandaid for job in jobs], now)
    return [pandaid for group in youngest_first(jobs) for pandaid in least_waste_first(group, stats)]


@dataclass(frozen=True)
class Moved:
    """What became of the jobs that were to be moved: those that were, and those that had changed meanwhile.

    ``files`` are the input files that were released, ``files_lost`` those of them without an attempt left;
    ``notes`` are remarks for operators.
    """

    acted: frozenset[int] = frozenset()
    skipped: frozenset[int] = frozenset()
    files: int = 0
    files_lost: int = 0
    notes: tuple[str, ...] = ()

    def counts_of(self, pandaids: Iterable[int]) -> tuple[int, int]:
        """How many of some jobs were moved, and how many were skipped."""
        some = set(pandaids)
        return len(some & self.acted), len(some & self.skipped)


def carry_out(
    context: CycleContext, moves: Sequence[JobAction], by: ActionContext, jobs_of_a_batch: int = JOBS_OF_A_BATCH
) -> Moved:
    """End jobs, batch after batch in order; nothing in a dry run."""
    acted: set[int] = set()
    skipped: set[int] = set()
    files = files_lost = 0
    if not context.writes:
        return Moved()
    for start in range(0, len(moves), jobs_of_a_batch):
        context.check()
        fault_points.reach("before_write")
        with context.writing() as connection:
            outcome = act(connection, moves[start : start + jobs_of_a_batch], by)
            fault_points.reach("after_write_before_commit")
        fault_points.reach("after_commit")
        acted.update(outcome.acted)
        skipped.update(outcome.skipped)
        files += outcome.files
        files_lost += outcome.files_lost
    return Moved(frozenset(acted), frozenset(skipped), files, files_lost)

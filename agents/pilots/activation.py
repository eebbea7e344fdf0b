"""The agent that activates jobs and keeps the task queues from which pilots get them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter

import numpy as np
import sqlalchemy as sa
from pydantic import Field

from agents.brokerage.grid_reading import tuning_of
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from broker.domain.arrays import Floats, Ints
from broker.gdpconfig.tuning import Tuning
from broker.pilots.statements import held_jobs
from broker.pilots.statements.activation import ActivationSplit, sort_jobs, write_sorted
from broker.pilots.statements.running_limits import count_running, set_limits
from broker.pilots.statements.task_queue_rows import JOBS_OF_A_PART, add_activated, follow_jobs, weigh
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.schema import migrate


class ActivationOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        jobs_of_a_cycle: jobs checked in one cycle.
        jobs_of_a_batch: jobs written in one transaction.
        jobs_of_a_part: if more jobs wait for pilots, about this many are compared with the true state in one cycle.
    """

    jobs_of_a_cycle: int = Field(default=100_000, ge=1)
    jobs_of_a_batch: int = Field(default=5_000, ge=1)
    jobs_of_a_part: int = Field(default=JOBS_OF_A_PART, ge=1)


class ActivationAgent(Agent[ActivationOptions]):
    """Activates jobs whose input is there, where the broker makes the jobs itself; alongside PanDA it does nothing."""

    name = "activation"
    title = "activation of jobs, and the task queues of those that wait for pilots"
    options_type = ActivationOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Check every job that is not activated yet, and update the task queues."""
        installation = migrate.check(context.database)
        if installation != migrate.STANDALONE or not self.process.makes_jobs(installation):
            return CycleReport(notes=("PanDA activates its jobs itself",))
        started = perf_counter()
        with context.database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, context.database.names)
            jobs = sort_jobs(connection, catalogue, self.options.jobs_of_a_cycle, context.seed)
        context.check()
        loaded_s = perf_counter() - started
        self._emit(context, jobs)
        counts = {"ready": len(jobs.ready), "waiting_for_input": len(jobs.waiting)}
        if not context.writes:
            return CycleReport(counts, {"load_s": loaded_s})
        tuning, names = tuning_of(context).tuning(None), context.database.names
        order, held_for = _MatchOrder(tuning.only(_KEYS)), held_jobs.held_for(tuning)
        for batch in _batches(jobs, self.options.jobs_of_a_batch):
            with context.writing() as connection:
                written = write_sorted(connection, catalogue, batch, context.now)
                ready = [job for job, _ in batch.ready]
                if held_for is not None:  # before pilots find them
                    held_jobs.hold_jobs(connection, names, context.now, held_for, ready)
                waiting = add_activated(connection, names, ready, context.now, order.set)
            for name, count in (written | waiting).items():
                counts[name] = counts.get(name, 0) + count
            context.check()
        for name, count in self._follow(context, order).items():
            counts[name] = counts.get(name, 0) + count
        return CycleReport(counts, {"load_s": loaded_s, "write_s": perf_counter() - started - loaded_s})

    def _follow(self, context: CycleContext, order: _MatchOrder) -> dict[str, int]:
        names = context.database.names
        with context.writing() as connection:
            counts = follow_jobs(connection, names, context.now, order.set, self.options.jobs_of_a_part)
        with context.writing() as connection:
            counted = count_running(Database.raw(connection), names, context.now)
        counts |= {"task_queues": order.task_queues, "limits": len(counted)}
        counts["limits_corrected"] = sum(limit.was_wrong for limit in counted)
        return counts

    def _emit(self, context: CycleContext, jobs: ActivationSplit) -> None:
        if context.request.emit is None:
            return
        for status, sorted_jobs in (("activated", jobs.ready), ("assigned", jobs.waiting)):
            for pandaid, queue in sorted_jobs:
                context.request.emit({"pandaid": pandaid, "queue": queue, "jobstatus": status})


_KEYS = ("MATCH_SHARE", "MATCH_BACKGROUND", "MATCH_TIER", "MATCH_TYPE_WEIGHT", "MATCH_LIMIT")


class _MatchOrder:
    """Order of matches and running limits, as the tuning sets them.

    Attributes:
        task_queues: number of task queues that held jobs at the last weighing.
    """

    def __init__(self, tuning: Tuning) -> None:
        self._tuning, self.task_queues = tuning, 0

    def set(self, connection: sa.Connection) -> None:
        """Write weights, tiers and limits."""
        background = self._tuning.flag("MATCH_BACKGROUND")
        self.task_queues = weigh(connection, self._share_values, self._type_order, background=background)
        set_limits(connection, self._limits_of)

    def _share_values(self, shares: Sequence[str | None]) -> Floats:
        return np.asarray(self._tuning.by_suffix("MATCH_SHARE", shares), dtype=np.float64)

    def _type_order(self, types: Sequence[str]) -> tuple[Ints, Floats]:
        tiers = self._tuning.by_suffix("MATCH_TIER", types).astype(np.int64)
        return tiers, self._tuning.by_suffix("MATCH_TYPE_WEIGHT", types)

    def _limits_of(self, types: Sequence[str], sites: Sequence[str]) -> Floats:
        return self._tuning.by_two_suffixes("MATCH_LIMIT", types, sites)


def _batches(jobs: ActivationSplit, size: int) -> Iterator[ActivationSplit]:
    """The jobs in parts of at most ``size`` of each kind."""
    for start in range(0, max(len(jobs.ready), len(jobs.waiting)), size):
        yield ActivationSplit(jobs.ready[start : start + size], jobs.waiting[start : start + size])

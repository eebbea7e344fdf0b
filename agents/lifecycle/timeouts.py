"""The agent of the timeouts: ends jobs that wait or run too long. The rules: :mod:`broker.lifecycle.model.rules`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from time import perf_counter
from typing import get_args

from pydantic import Field

from agents.alongside import panda_ending
from agents.brokerage.grid_reading import tuning_of
from agents.lifecycle.ending_options import EndingOptions, MoveOutcome
from agents.lifecycle.rebrokerage import JobEndingAgent, held_back_of
from agents.service import fault_points
from agents.service.base import CycleContext, CycleReport
from broker.lifecycle.model.jobs import Action
from broker.lifecycle.statements.actions import ActionContext, JobAction
from broker.lifecycle.statements.scan import count_live, find_due
from broker.store.schema import migrate

ACTIONS: tuple[Action, ...] = get_args(Action)


class TimeoutsOptions(EndingOptions):
    """Options of the agent.

    Attributes:
        jobs_of_a_cycle: jobs ended in one cycle, lowest pandaid first; the others wait for the next one.
        jobs_of_a_batch: jobs ended in one transaction.
    """

    jobs_of_a_cycle: int = Field(default=100_000, ge=1)
    jobs_of_a_batch: int = Field(default=5_000, ge=1)


class TimeoutsAgent(JobEndingAgent[TimeoutsOptions]):
    """Ends the jobs on which a timeout rule acts."""

    name = "timeouts"
    title = "timeouts of jobs"
    options_type = TimeoutsOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Judge all jobs once and end those that are over a limit."""
        standalone = self.process.makes_jobs(migrate.check(context.database))
        published = tuning_of(context)
        started = perf_counter()
        fault_points.reach("before_snapshot")
        with context.database.read_snapshot() as connection:
            catalogue, inputs = self.inputs_of(connection, context, published.tuning(None))
            most, tasks = self.options.jobs_of_a_cycle, context.request.task_ids
            due = find_due(connection, catalogue, inputs.timeout_context, most, tasks)
            live = count_live(connection, catalogue)
        fault_points.reach("after_snapshot")
        context.check()
        loaded_s = perf_counter() - started
        by = ActionContext(catalogue, self.name, context.run_id, context.now, standalone)
        through_panda = self.options.way(standalone) == "panda_api"
        due, left_to_panda = panda_ending.parted(due) if through_panda else (due, [])
        moves, held_back = self.braked(context, due, live)
        moved = self.end(context, moves, by, self.options.jobs_of_a_batch)
        acted = frozenset(moved.acted)
        done = [move for move in due if not context.request.writes or move.pandaid in acted]
        if context.request.emit is not None:
            for move in done:
                context.request.emit(move_object(move) | ({"through": "panda_api"} if through_panda else {}))
        notes = [*held_back, *moved.notes, *inputs.notes, *(f"gdpconfig: {row}" for row in published.bad_rows)]
        if len(due) + len(left_to_panda) == most:
            notes.append(f"{most} jobs are due, as many as a cycle ends (jobs_of_a_cycle); there may be more")
        timings = {"load_s": loaded_s, "write_s": perf_counter() - started - loaded_s}
        counts = _counts(due, done, moved) | held_back_of(due, moves)
        counts |= {panda_ending.LEFT_TO_PANDA: len(left_to_panda)} if through_panda else {}
        return CycleReport(counts, timings, tuple(notes), tuning=published.version)


def _counts(due: Sequence[JobAction], done: Sequence[JobAction], moved: MoveOutcome) -> dict[str, int]:
    by_action = Counter(move.action for move in done)
    return {
        "due": len(due),
        **{action: by_action[action] for action in ACTIONS},
        "skipped": len(moved.skipped),
        "files": moved.files,
        "files_lost": moved.files_lost,
    }


def move_object(move: JobAction) -> dict[str, object]:
    """The output object of a job on which a rule acts."""
    return {
        "pandaid": move.pandaid,
        "queue": move.queue,
        "status": move.old_status,
        "rule": move.rule,
        "value_s": move.value_s,
        "limit_s": move.limit_s,
        "action": move.action,
        "code": move.code,
    }

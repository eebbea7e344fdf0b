"""The agent that acts on the final reports of pilots: it ends jobs, files and counters, and tasks without work left.

It also ends jobs of killed, finished or reassigned tasks, if the verb left some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from time import perf_counter

from pydantic import Field

from agents.service import fault_points
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from agents.tasks.task_commands import carry_out_batch
from broker.lifecycle.statements.actions import ActionContext
from broker.lifecycle.statements.finishing import ReportedJob, finish, read_reported
from broker.lifecycle.statements.task_ends import TaskChange, read_ending, write_ending
from broker.pilots.model.job_outcome import JobEnd, job_end
from broker.store.connection.tables import TableCatalogue
from broker.store.schema import migrate
from broker.tasks.statements.rucio_outputs import queue_jobs
from broker.tasks.statements.task_verbs import open_commands

Ends = list[tuple[ReportedJob, JobEnd]]


class CompletionOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        jobs_of_a_cycle: jobs ended in one cycle, the oldest report first; the others wait for the next one.
        jobs_of_a_batch: jobs ended in one transaction.
        tasks_of_a_cycle: tasks ended in one cycle.
    """

    jobs_of_a_cycle: int = Field(default=20_000, ge=1)
    jobs_of_a_batch: int = Field(default=1_000, ge=1)
    tasks_of_a_cycle: int = Field(default=1_000, ge=1)


class CompletionAgent(Agent[CompletionOptions]):
    """Ends jobs by their pilots' final reports, and tasks without work, where the broker makes the jobs itself."""

    name = "completion"
    title = "ends of jobs that pilots reported, and of their tasks"
    options_type = CompletionOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Process all final reports, then the tasks."""
        installation = migrate.check(context.database)
        if installation != migrate.STANDALONE or not self.process.makes_jobs(installation):
            return CycleReport(notes=("PanDA takes the reports of its pilots to their end itself",))
        started = perf_counter()
        counts: Counter[str] = Counter(
            finished=0, failed=0, skipped=0, files=0, files_lost=0, outputs=0, killed=0, told=0
        )
        for batch in self._batches(context, counts):
            self._emit(context, batch)
            context.check()
        jobs_s = perf_counter() - started
        counts.update(self._carry_out(context))
        counts["tasks"] = self._end_tasks(context)
        return CycleReport(dict(counts), {"jobs_s": jobs_s, "tasks_s": perf_counter() - started - jobs_s})

    def _batches(self, context: CycleContext, counts: Counter[str]) -> Iterator[Ends]:
        """Yield each batch once it is ended; skipped jobs are not read again in this cycle."""
        jobs_read = 0
        skipped: list[int] = []
        by = self._acting(context)
        while jobs_read < self.options.jobs_of_a_cycle:
            most = min(self.options.jobs_of_a_batch, self.options.jobs_of_a_cycle - jobs_read)
            with context.transaction() as connection:
                names = context.database.names
                jobs = read_reported(connection, names, most, context.request.task_ids, skipped)
                ends = [(job, job_end(job.report, job.files)) for job in jobs]
                if context.writes and ends:
                    outcome = finish(connection, ends, by)
                    counts["outputs"] += queue_jobs(connection, names, outcome.acted, context.now)
                    fault_points.reach("after_write_before_commit")
                    skipped += outcome.skipped
                    left_out = set(outcome.skipped)
                    ends = [(job, end) for job, end in ends if job.pandaid not in left_out]
                    counts.update(skipped=len(outcome.skipped), files=outcome.files, files_lost=outcome.files_lost)
                else:
                    skipped += [job.pandaid for job in jobs]
            jobs_read += len(jobs)
            counts.update(end.status for _, end in ends)
            yield ends
            if len(jobs) < most:
                return

    def _acting(self, context: CycleContext) -> ActionContext:
        with context.database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, context.database.names)
        return ActionContext(catalogue, self.name, context.run_id, context.now, standalone=True)

    def _carry_out(self, context: CycleContext) -> Counter[str]:
        """End the jobs that the verb left in killed, finished or reassigned tasks."""
        counts: Counter[str] = Counter(killed=0, told=0)
        by = self._acting(context)
        with context.transaction() as connection:
            commands = open_commands(
                connection, context.database.names, self.options.tasks_of_a_cycle, context.request.task_ids
            )
        for command in commands if context.writes else ():
            skipped: list[int] = []
            while True:
                context.check()
                with context.writing() as connection:
                    ended = carry_out_batch(connection, command, by, skipped, self.options.jobs_of_a_batch)
                    fault_points.reach("after_write_before_commit")
                counts.update(killed=ended.jobs, told=ended.stop_requests, skipped=len(ended.skipped))
                skipped += ended.skipped
                if ended.is_last or not (ended.jobs or ended.stop_requests):
                    break
        return counts

    def _end_tasks(self, context: CycleContext) -> int:
        names = context.database.names
        with context.transaction() as connection:
            changes = read_ending(connection, names, self.options.tasks_of_a_cycle, context.request.task_ids)
            if context.writes:
                changes = write_ending(connection, names, changes, context.now)
        self._emit_tasks(context, changes)
        return len(changes)

    def _emit(self, context: CycleContext, ends: Ends) -> None:
        if context.request.emit is None:
            return
        for job, end in ends:
            context.request.emit(
                {
                    "pandaid": job.pandaid,
                    "jeditaskid": job.jeditaskid,
                    "queue": job.queue,
                    "jobstatus": end.status,
                    "reason": end.reason,
                    "code": end.code,
                }
            )

    def _emit_tasks(self, context: CycleContext, changes: list[TaskChange]) -> None:
        if context.request.emit is None:
            return
        for change in changes:
            context.request.emit({"jeditaskid": change.jeditaskid, "status": change.status, "reason": change.reason})

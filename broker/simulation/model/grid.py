"""The grid in virtual time: it follows jobs from their queue until their output is at the nucleus."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from broker.domain.grid import COUNTED_STATUSES
from broker.simulation.model.arriving import arriving, end_of_scouts, note_memory, release
from broker.simulation.model.events import EventQueue
from broker.simulation.model.job_kinds import queue_factors
from broker.simulation.model.job_states import ACTIVATED, RUNNING, STARTING, TRANSFERRING, Job, TaskState
from broker.simulation.model.outages import Outages
from broker.simulation.model.pilot_delays import PilotDelays
from broker.simulation.model.records import Outcome, RunLog, Tally
from broker.simulation.model.right_sizing import NeedsOfKind
from broker.simulation.model.scenario import Scenario, Task
from broker.simulation.model.slots import Nodes, SlotQueue
from broker.simulation.model.storages import Storages
from broker.simulation.model.transfers import MOST_BYTES_S, Transfers
from broker.simulation.model.users import UserLoad
from broker.simulation.model.worker_jobs import WorkerJobs
from broker.simulation.model.workers import WorkerPool


class Grid:
    """The state of a simulated grid.

    Args:
        scenario: a checked scenario.
        seed: seed of all draws.
        events: event queue that keeps the virtual time.

    Attributes:
        counts: (U, S, status) current jobs by queue, share and status.
        online: (U,) whether each queue takes jobs.
        outcomes: (U, 2) finished and failed runs of each queue.
        users: jobs of users, and recent starts.
        share_hs06: (S,) HS06 of the running jobs of each share.
        tasks: arrived tasks that are not freed yet, by number; ``freed_jobs`` counts the jobs of freed tasks.
        assignable: tasks with jobs that wait for a queue, by number.
    """

    def __init__(self, scenario: Scenario, seed: int, events: EventQueue) -> None:
        self.scenario, self.seed, self.events = scenario, seed, events
        self.tally, self.log = Tally(), RunLog()
        queues = len(scenario.queues)
        self.counts = np.zeros((queues, len(scenario.shares), len(COUNTED_STATUSES)))
        self.online = np.ones(queues, dtype=np.bool_)
        self.up = np.ones(queues, dtype=np.bool_)
        self.storages = Storages(scenario.sites, scenario.output_lifetime_s)
        self.transfers = Transfers(scenario, events, self.tally, seed)
        self.share_hs06 = np.zeros(len(scenario.shares))
        self.outcomes = np.zeros((queues, 2))
        self.users = UserLoad(scenario)
        weights = np.array([weight for _, weight in scenario.shares])
        self._targets = weights / weights.sum()
        self._claims: list[float] = self._targets.tolist()
        nodes = [Nodes(q.nodes, q.node_cores, q.node_memory_gb) for q in scenario.queues]
        by_worker = [WorkerJobs(node, self._claim) for node in nodes] if scenario.workers.enabled else []
        self.workers = WorkerPool(self, by_worker, seed) if by_worker else None
        self.slots: Sequence[SlotQueue[Job]] = by_worker or [
            SlotQueue(node, self._claim, scenario.drain_after_s) for node in nodes
        ]
        self._pilots = PilotDelays(scenario, seed, events)
        self._factors: dict[tuple[int, str], tuple[float, float]] = {}
        self.running: list[dict[Job, None]] = [{} for _ in scenario.queues]
        self.waiting_jobs: list[dict[Job, None]] = [{} for _ in scenario.queues]
        self.last_start_s = np.full(queues, np.nan)
        self.tasks: dict[int, TaskState] = {}
        self._needs = NeedsOfKind()
        self.arrived_jobs, self.freed_jobs = 0, 0
        self.assignable: dict[int, TaskState] = {}
        self.done: Callable[[TaskState], None] = lambda task: None
        Outages(self)

    # -- tasks

    def arrive(self, task: Task, nucleus: int) -> TaskState:
        """Add an arriving task: its jobs can be assigned from now on."""
        state = arriving(self.scenario, self.seed, task, self.events.now, nucleus, self._needs)
        self.tasks[task.number] = state
        self.arrived_jobs += task.jobs
        self.assignable[task.number] = state
        if task.running_at >= 0:
            self.assign(state, task.running_at, task.jobs)
            if self.workers is not None:
                self.workers.already_run(task.running_at)
        return state

    def free(self, state: TaskState) -> None:
        """Forget a finished task."""
        del self.tasks[state.task.number]
        self.freed_jobs += state.task.jobs

    def assign(self, state: TaskState, queue: int, jobs: int) -> None:
        """Send ``jobs`` of the task's unassigned jobs to a queue."""
        kind, task, now = state.kind, state.task, self.events.now
        most = self.scenario.queues[queue].node_memory_gb
        believed_s = 0.0 if self.workers is None else state.believed_wall_s(self.scenario.queues[queue].corepower)
        for _ in range(jobs):
            index = state.unassigned.pop()
            attempt = int(state.attempts[index])
            memory = min(state.memory_gb(index), max(most, kind.cores * kind.memory_gb_core))
            job = Job(state, index, queue, attempt, kind.cores, memory, task.priority, task.share, now)
            job.believed_s = believed_s
            job.ticket = self.slots[queue].add(job)
            job.changed_s = now
            self.waiting_jobs[queue][job] = None
        self.counts[queue, task.share, ACTIVATED] += jobs
        if kind.analysis:
            self.users.wait(task, queue, jobs)
        self.tally.assigned_jobs += jobs
        if not state.unassigned:
            self.assignable.pop(task.number, None)
        self.start_jobs(queue)

    def take_back(self, job: Job) -> None:
        """Remove a waiting job from its queue, so that it is brokered again."""
        state = job.task
        self.slots[job.queue].withdraw(job.ticket, job)
        self.waiting_jobs[job.queue].pop(job)
        self.counts[job.queue, job.share, ACTIVATED] -= 1
        if state.kind.analysis:
            self.users.wait(state.task, job.queue, -1)
        self.tally.rebrokered += 1
        state.moves += 1
        state.left[job.queue] = self.events.now
        self._unassign(state, job.index)

    @property
    def drained_core_s(self) -> float:
        """Core seconds left idle while queues drained for wide jobs or wide workers."""
        held = 0.0 if self.workers is None else self.workers.drained_core_s
        return held + sum(slots.drained_core_s for slots in self.slots)

    def balance_shares(self) -> None:
        """Update the claims, so that shares below their target start first."""
        used = self.share_hs06.sum()
        got = self.share_hs06 / used if used > 0 else self._targets
        self._claims = (self._targets - got).tolist()

    def _claim(self, share: int) -> float:
        return self._claims[share]

    def claims(self) -> list[float]:
        """The claim of each share; shares with the highest claim start first."""
        return self._claims

    def _unassign(self, state: TaskState, index: int) -> None:
        state.unassigned.append(index)
        self.assignable[state.task.number] = state

    # -- jobs at a queue

    def start_jobs(self, queue: int, at_once: bool = False) -> None:
        """Give free slots to waiting jobs; ``at_once`` if a pilot that has just ended a job requests the next one."""
        if self.workers is not None:
            self.workers.serve(queue)
            return
        if not (self.up[queue] and self.online[queue]):
            return
        for job, node in self.slots[queue].starts(self.events.now):
            self.begin(job, node, self._pilots.delay_s(queue, at_once))

    def begin(self, job: Job, node: int, delay_s: float) -> None:
        """Give a waiting job its slot at a node, and run it after a delay."""
        self.waiting_jobs[job.queue].pop(job)
        job.node = node
        self.running[job.queue][job] = None
        self._move(job, STARTING)
        self.events.after(delay_s, self._run, job, job.version)

    def _move(self, job: Job, state: int) -> None:
        counts = self.counts[job.queue, job.share]
        counts[job.state] -= 1
        counts[state] += 1
        job.state = state
        job.changed_s = self.events.now

    def _run(self, job: Job, version: int) -> None:
        if job.version != version:
            return
        state, queue, now = job.task, self.scenario.queues[job.queue], self.events.now
        draws, kind, index = state.draws, state.kind, job.index
        self._move(job, RUNNING)
        job.started_s = now
        self.last_start_s[job.queue] = now
        self.users.starts.add(job.queue, now)
        if kind.analysis:
            self.users.start(state.task, job.queue)
            state.active_s[job.queue] = now
        self.share_hs06[job.share] += job.cores * queue.corepower
        if math.isnan(state.first_start_s[index]):
            state.first_start_s[index] = now
        efficiency_factor, rate_factor = self.factors_of(job.queue, kind.name)
        work, drawn, in_s, start_s, overhead_s = draws.of_job(index)
        drawn *= efficiency_factor
        efficiency = max(0.01, min(1.0, drawn)) if kind.wall_s is None else max(1e-4, drawn)
        speed = job.cores * queue.corepower * queue.hidden_speed * efficiency
        job.execution_s = work / speed
        job.efficiency = efficiency
        start_up = start_s + overhead_s if kind.starts_up else 0.0
        rate = min(MOST_BYTES_S, max(1e5, in_s * rate_factor))
        size = kind.input_gb * 1e9
        whole = start_up + size / rate + job.execution_s
        rate_here = queue.failure_rate + kind.failure_rate + queue.failure_of_kind.get(kind.name, 0.0)
        rate_here += state.task.failure_rate
        if draws.fails[index, job.attempt] < rate_here:
            life = float(draws.life[index, job.attempt]) * queue.fails_after
            self.events.after(life * whole, self._fail, job, version, "failed")
        self._enforce(job, version, whole)
        if size > 0:
            self.events.after(start_up, self._stage_in, job, version, size, rate)
        else:
            self.events.after(start_up, self._execute, job, version)

    def _enforce(self, job: Job, version: int, whole_s: float) -> None:
        """Schedule the end of a job that will exceed its memory or the walltime limit of its queue."""
        state = job.task
        if state.memory_used_mb is not None:
            most_mb = job.memory_gb * 1024.0 * (1.0 + self.scenario.memory_slack)
            if state.memory_used_mb[job.index] > most_mb:
                life = float(state.draws.life[job.index, job.attempt])
                self.events.after(life * whole_s, self._kill_for_memory, job, version)
        limit_s = self.scenario.queues[job.queue].maxtime_s
        if self.scenario.enforce_walltime and whole_s > limit_s:
            self.tally.over_walltime += 1
            self.events.after(limit_s, self._fail, job, version, "failed")

    def _kill_for_memory(self, job: Job, version: int) -> None:
        if job.version != version:
            return
        note_memory(job, self.scenario, self.tally, self.events.now, self._needs, killed=True)
        self._fail(job, version, "failed")

    def factors_of(self, queue: int, kind: str) -> tuple[float, float]:
        """The factors of efficiency and stage-in rate for jobs of a kind at a queue."""
        key = (queue, kind)
        if key not in self._factors:
            own, where = self.scenario.kinds[kind], self.scenario.queues[queue]
            efficiency, rate = queue_factors(own, where.name, self.seed)
            self._factors[key] = (efficiency * where.efficiency_of_type.get(own.processingtype, 1.0), rate)
        return self._factors[key]

    def _stage_in(self, job: Job, version: int, size: float, rate: float) -> None:
        if job.version != version:
            return
        site = self.scenario.queues[job.queue].site
        source = self.transfers.reached_source(site, job.task.task.sources)
        if source is None:
            self._fail_stage_in(job, version)
            return
        draws, then = job.task.stage_in_fails, partial(self._execute, job, version)
        if draws is not None and draws[job.index, job.attempt] < self.scenario.transfer_failures.stage_in:
            then = partial(self._fail_stage_in, job, version)
        job.flow = self.transfers.stage_in(source, site, size, rate, then)

    def _fail_stage_in(self, job: Job, version: int) -> None:
        if job.version == version:
            job.flow = 0
            self.tally.failed_stage_ins += 1
            self._fail(job, version, "failed")

    def _execute(self, job: Job, version: int) -> None:
        if job.version != version:
            return
        job.flow = 0
        size = float(job.task.draws.output_bytes[job.index])
        stage_out = size / float(job.task.draws.stage_out_bytes_s[job.index]) if size > 0 else 0.0
        self.events.after(job.execution_s + stage_out, self._finish, job, version)

    def _finish(self, job: Job, version: int) -> None:
        if job.version != version:
            return
        site = self.scenario.queues[job.queue].site
        size = float(job.task.draws.output_bytes[job.index])
        answers = size <= 0 or not self.transfers.out(site, site)
        if not (answers and self.storages.reserve(site, size)):
            self.tally.no_space += int(answers)
            self._fail(job, version, "failed")
            return
        self.storages.write(site, size, self.events.now)
        note_memory(job, self.scenario, self.tally, self.events.now, self._needs, killed=False)
        self._end_run(job, "finished")
        nucleus = job.task.nucleus
        if nucleus in (-1, site) or size <= 0:
            self._arrived(job)
            return
        self.counts[job.queue, job.share, TRANSFERRING] += 1
        job.state = TRANSFERRING
        self.transfers.send(site, nucleus, size, partial(self._sent, job, nucleus, size))

    def _sent(self, job: Job, nucleus: int, size: float, arrived: bool) -> None:
        self.counts[job.queue, job.share, TRANSFERRING] -= 1
        if not arrived:
            self.attempt_failed(job)
            return
        if self.storages.reserve(nucleus, size):
            self.storages.write(nucleus, size, self.events.now)
        else:
            self.tally.no_space += 1
        self._arrived(job)

    def _arrived(self, job: Job) -> None:
        job.task.done_s[job.index] = self.events.now
        self._count_end(job, failed=False)
        self._close(job.task)

    def _count_end(self, job: Job, *, failed: bool) -> None:
        if self.scenario.counts_bad_jobs:
            job.task.count_end(self.scenario.queues[job.queue].name, failed=failed)

    def _close(self, state: TaskState) -> None:
        state.open_jobs -= 1
        if end_of_scouts(state):
            if release(state):
                self.assignable[state.task.number] = state
                state.retry_s = self.events.now
            else:
                self.tally.broken_tasks += 1
        if state.open_jobs == 0:
            self.done(state)

    def fail(self, job: Job) -> None:
        """Fail the current attempt of a starting or running job."""
        self._fail(job, job.version, "failed")

    def vanish(self, job: Job) -> None:
        """Lose a starting or running job; the loss is detected when its heartbeat is missed."""
        self.leave(job, "lost")
        self.tally.lost += 1
        self.events.after(self.scenario.heartbeat_s, self._missed, job, job.state)

    def _missed(self, job: Job, state: int) -> None:
        self.uncount(job, state)
        self.attempt_failed(job)

    def _fail(self, job: Job, version: int, outcome: Outcome) -> None:
        if job.version != version:
            return
        self._end_run(job, outcome)
        self.attempt_failed(job)

    def attempt_failed(self, job: Job) -> None:
        """Count a failed attempt: the job is brokered again, or has failed for good."""
        state = job.task
        state.note_failed(job.index, job.queue, self.events.now)
        self.tally.failed_attempts += 1
        self._count_end(job, failed=True)
        if state.attempts[job.index] >= self.scenario.attempts:
            self.tally.failed_jobs += 1
            state.done_s[job.index] = math.inf
            self._close(state)
        else:
            self._unassign(state, job.index)

    def _end_run(self, job: Job, outcome: Outcome) -> None:
        """Release what a job holds at its queue, and give its slot to the next job."""
        self.leave(job, outcome)
        self.uncount(job, job.state)
        self.start_jobs(job.queue, at_once=True)

    def uncount(self, job: Job, state: int) -> None:
        """Remove a job that was starting or running from the counts."""
        self.counts[job.queue, job.share, state] -= 1
        if job.task.kind.analysis:
            self.users.end(job.task.task, job.queue, ran=state == RUNNING)
            if state == RUNNING:
                job.task.active_s[job.queue] = self.events.now

    def leave(self, job: Job, outcome: Outcome) -> None:
        """Release what a job holds at its queue: its slot, its transfer and its worker."""
        job.version += 1
        if job.flow:
            self.transfers.network.cancel(job.flow)
            job.flow = 0
        self.slots[job.queue].release(job, job.node)
        self.running[job.queue].pop(job)
        if self.workers is not None:
            self.workers.left(job)
        if job.state == RUNNING:
            self.log_run(job, outcome)
            self.share_hs06[job.share] -= job.cores * self.scenario.queues[job.queue].corepower

    def log_run(self, job: Job, outcome: Outcome) -> None:
        """Log the run of a job that has ended, or that is cut off by the end of the simulation."""
        power = self.scenario.queues[job.queue].corepower
        task, now = job.task.task, self.events.now
        if outcome in ("finished", "failed"):
            self.outcomes[job.queue, int(outcome == "failed")] += 1
        self.log.add(
            task=task.number, queue=job.queue, share=job.share, user=task.user, cores=job.cores, outcome=outcome,
            assigned_s=job.assigned_s, start_s=job.started_s, end_s=now, execution_s=job.execution_s,
            efficiency=job.efficiency,
            hs06s=job.cores * power * (now - job.started_s), analysis=job.task.kind.analysis,
        )  # fmt: skip

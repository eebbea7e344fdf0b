"""The agent that submits wanted pilots to batch systems, and ends those that wait too long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agents.pilots.batch_systems import FINAL, BatchFailed, BatchSystem, PilotJob, PsiJ
from agents.service import fault_points
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from broker.lifecycle.model.jobs import WORKER_ENDED
from broker.lifecycle.statements.actions import ActionContext, JobAction, act
from broker.pilots.model.pilot_demand import LIMITS
from broker.pilots.model.submission import (
    PilotRequests,
    SentPilot,
    SubmissionLimits,
    job_name,
    may_be_healed,
    outcome_of,
    to_end,
    to_submit,
)
from broker.pilots.model.worker_distribution import SlotType, cores_of
from broker.pilots.statements import pilot_demand, submitted_pilots
from broker.pilots.statements.job_giving import text_number
from broker.store.connection.tables import TableCatalogue
from broker.store.schema import migrate

RULE = "worker_ended"
_EXECUTORS = {"SLURM": "slurm", "PBS": "pbs", "LSF": "lsf", "FORK": "local"}
"""Executors of PSI/J, by the flavour of a queue of a batch system."""
_LIMITS = {"most_waiting": 20, "most_pilots": 100, "most_new": 20}
"""Defaults where neither the options nor the queue set a limit."""


class BatchQueue(BaseModel):
    """Where the pilots of a queue go.

    Attributes:
        executor: of PSI/J: slurm, pbs, lsf, local; None: that of the batch system of the queue, with its partition.
        batch_queue: partition or queue of the batch system; None: its default.
        command: of a pilot; ``{queue}``, ``{worker}``, ``{resource_type}`` and ``{harvester}`` are filled in; None:
            that of all queues.
        environment: of a pilot, beside HARVESTER_ID and HARVESTER_WORKER_ID.
        cores: of a pilot; None: those of its resource type at the queue.
        memory_mb: of a pilot; None: that of the queue by core; 0: not asked for.
        most_waiting: pilots that may wait; None: as the queue says in ``params``, else 20.
        most_pilots: that may wait and run; None: likewise, else 100.
        most_new: submitted in one cycle; None: likewise, else 20.
        longest_wait_s: after which a waiting pilot is ended.
        withdrawn_after_s: after which a waiting pilot that no job needs is ended.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    executor: str | None = Field(default=None, min_length=1)
    batch_queue: str | None = None
    command: list[str] | None = Field(default=None, min_length=1)
    environment: dict[str, str] = Field(default_factory=dict)
    cores: int | None = Field(default=None, ge=1)
    memory_mb: int | None = Field(default=None, ge=0)
    most_waiting: int | None = Field(default=None, ge=0)
    most_pilots: int | None = Field(default=None, ge=0)
    most_new: int | None = Field(default=None, ge=0)
    longest_wait_s: float = Field(default=86_400, gt=0)
    withdrawn_after_s: float = Field(default=600, gt=0)


@dataclass(frozen=True)
class _Place:
    """Where the pilots of a queue go, with the settings of the queue itself.

    Attributes:
        options: options of the submitter for the queue.
        data: settings of the queue.
        executor: executor of PSI/J.
        batch_queue: partition or queue; None: the default.
        command: command of a pilot.
        limits: limits of pilots.
    """

    options: BatchQueue
    data: Mapping[str, Any]
    executor: str
    batch_queue: str | None
    command: Sequence[str]
    limits: SubmissionLimits


class SubmitterOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        harvester_id: name of this submitter among the Harvester instances.
        folder: for the output of pilots, visible to the nodes.
        queues: where the pilots of each queue go.
        command: of the pilots of queues that name none.
        poll_s: seconds between two checks of job states by PSI/J.
        settle_s: age at which a submission of unknown outcome is looked up by name.
        lost_after_s: silence of a job whose pilot has ended, after which it is tried again.
        demand_counts_s: age up to which the demand is used.
    """

    harvester_id: str = Field(default="gridbroker", min_length=1, max_length=40, pattern=r"^[A-Za-z0-9_.]+$")
    folder: Path = Path("pilots")
    queues: dict[str, BatchQueue] = Field(default_factory=dict)
    command: list[str] | None = Field(default=None, min_length=1)
    poll_s: float = Field(default=10, gt=0)
    settle_s: float = Field(default=60, ge=0)
    lost_after_s: float = Field(default=300, ge=0)
    demand_counts_s: float = Field(default=300, gt=0)


class SubmitterAgent(Agent[SubmitterOptions]):
    """Submits pilots to batch systems, in a standalone installation."""

    name = "submitter"
    title = "pilots to batch systems"
    options_type = SubmitterOptions
    is_feed = True

    def __init__(self, options: SubmitterOptions, process: Any) -> None:
        """Create the agent; each batch system is connected on first use."""
        super().__init__(options, process)
        self._systems: dict[str, BatchSystem] = {}
        self.connect: Callable[[str], BatchSystem] = lambda executor: PsiJ(executor, options.poll_s)

    def cycle(self, context: CycleContext) -> CycleReport:
        """Follow the submitted pilots, end some, submit new ones, and report them."""
        if migrate.check(context.database) != migrate.STANDALONE:
            return CycleReport(notes=("pilots of PanDA are sent by Harvester",))
        if not context.writes:
            return CycleReport(notes=("a dry run asks no batch system",))
        counts, notes = Counter(healed=0, ended=0, submitted=0, refused=0, lost_jobs=0), list[str]()
        for pilot in self._alive(context):
            context.check()
            self._attempt(notes, partial(self._follow, context, pilot, counts))
        for queue, options in self.options.queues.items():
            context.check()
            self._attempt(notes, partial(self._serve, context, queue, options, counts, notes))
        with context.writing() as connection:
            since = context.now - timedelta(days=1)
            submitted_pilots.report_workers(
                connection, context.database.names, self.options.harvester_id, self.options.queues, context.now, since
            )
        counts["lost_jobs"] = self._end_lost(context)
        return CycleReport(dict(counts), notes=tuple(dict.fromkeys(notes)))

    def _attempt(self, notes: list[str], do: Callable[[], None]) -> None:
        """Run an action; note a failure of its batch system, so that the other actions still run."""
        try:
            do()
        except BatchFailed as error:
            notes.append(str(error))

    def _alive(self, context: CycleContext) -> list[SentPilot]:
        with context.database.read_snapshot() as connection:
            return submitted_pilots.read_alive(connection, context.database.names, self.options.harvester_id)

    def _system(self, executor: str) -> BatchSystem:
        if executor not in self._systems:
            self._systems[executor] = self.connect(executor)
        return self._systems[executor]

    def _note(self, context: CycleContext, pilot: SentPilot, state: str, **more: str | None) -> None:
        with context.writing() as connection:
            submitted_pilots.note(connection, context.database.names, pilot.worker, state, context.now, **more)

    def _follow(self, context: CycleContext, pilot: SentPilot, counts: Counter[str]) -> None:
        """Update the recorded state of a pilot."""
        if pilot.native_id is None:
            self._heal(context, pilot, counts)
            return
        state = self._system(pilot.executor).state(pilot.native_id)
        if state in FINAL:
            with context.database.read_snapshot() as connection:
                statuses = submitted_pilots.pilot_statuses(
                    connection, context.database.names, self.options.harvester_id, [pilot.worker]
                )
            self._note(context, pilot, "ended", outcome=outcome_of(state, statuses.get(pilot.worker)))
            counts["ended"] += 1
        elif state == "ACTIVE" and pilot.state != "running":
            self._note(context, pilot, "running")

    def _heal(self, context: CycleContext, pilot: SentPilot, counts: Counter[str]) -> None:
        """Recover from a crash around the submission: a batch job with its name shows that it was submitted."""
        if not may_be_healed(pilot, context.now, timedelta(seconds=self.options.settle_s)):
            return
        native = self._system(pilot.executor).find(job_name(self.options.harvester_id, pilot))
        if native is None:
            self._note(context, pilot, "ended", outcome="never_submitted")
        else:
            self._note(context, pilot, "submitted", native=native)
        counts["healed"] += 1

    def _serve(
        self, context: CycleContext, queue: str, options: BatchQueue, counts: Counter[str], notes: list[str]
    ) -> None:
        """End pilots of a queue that wait too long or for no job, and submit the new ones."""
        with context.database.read_snapshot() as connection:
            data = pilot_demand.read_queues(connection, context.database.names).get(queue, {})
            types = pilot_demand.read_types(connection, context.database.names)
        place = _place(queue, options, self.options.command, data)
        wanted = self._wanted(context, queue, notes)
        alive = [pilot for pilot in self._alive(context) if pilot.panda_queue == queue]
        system = self._system(place.executor)
        by_worker = {pilot.worker: pilot for pilot in alive}
        for worker, outcome in to_end(wanted, alive, place.limits, context.now).items():
            pilot = by_worker[worker]
            system.cancel(pilot.native_id or "")
            self._note(context, pilot, "ended", outcome=outcome)
            counts["ended"] += 1
        for resource_type, number in to_submit(wanted, alive, place.limits).items():
            slot = _slot(place, types.get(resource_type))
            with context.writing() as connection:
                planned = submitted_pilots.plan(
                    connection,
                    context.database.names,
                    self.options.harvester_id,
                    (queue, resource_type, place.executor),
                    number,
                    context.now,
                )
            for pilot in planned:
                context.check()
                self._submit(context, system, self._job(pilot, place, slot), pilot, counts)

    def _submit(
        self, context: CycleContext, system: BatchSystem, job: PilotJob, pilot: SentPilot, counts: Counter[str]
    ) -> None:
        fault_points.reach("before_submission")
        try:
            native = system.submit(job)
        except BatchFailed as error:
            self._note(context, pilot, "ended", outcome="refused", detail=str(error))
            counts["refused"] += 1
            raise
        fault_points.reach("after_submission")
        self._note(context, pilot, "submitted", native=native)
        counts["submitted"] += 1

    def _wanted(self, context: CycleContext, queue: str, notes: list[str]) -> list[PilotRequests]:
        """Return the pilots wanted at a queue; none, with a note, where the demand was counted too long ago."""
        names, harvester = context.database.names, self.options.harvester_id
        with context.database.read_snapshot() as connection:
            rows = pilot_demand.read_demand(connection, names, queue)
            counted_at = min((row.counted_at for row in rows), default=context.now)
            sent = submitted_pilots.sent_since(connection, names, harvester, queue, counted_at)
        if (context.now - counted_at).total_seconds() > self.options.demand_counts_s:
            notes.append(f"the demand of {queue} was counted more than {self.options.demand_counts_s:g} s ago")
            return []
        return [
            PilotRequests(demand.resource_type, demand.wanted or 0, demand.surplus, sent.get(demand.resource_type, 0))
            for demand in (row.demand for row in rows)
        ]

    def _job(self, pilot: SentPilot, place: _Place, slot: tuple[int, float, float]) -> PilotJob:
        """The batch job of a pilot in its slot, see :func:`_slot`."""
        words = {
            "queue": pilot.panda_queue,
            "worker": str(pilot.worker),
            "resource_type": pilot.resource_type,
            "harvester": self.options.harvester_id,
        }
        own = {"HARVESTER_ID": self.options.harvester_id, "HARVESTER_WORKER_ID": str(pilot.worker)}
        folder = self.options.folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        return PilotJob(
            job_name(self.options.harvester_id, pilot),
            [_filled(word, words) for word in place.command],
            {**place.options.environment, **own},
            place.batch_queue,
            *slot,
            folder,
        )

    def _end_lost(self, context: CycleContext) -> int:
        """Fail the jobs whose pilot is gone and silent, so that they are tried again."""
        names, lost_after = context.database.names, timedelta(seconds=self.options.lost_after_s)
        with context.database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, names)
            rows = submitted_pilots.read_lost(
                connection,
                names,
                self.options.harvester_id,
                context.now,
                context.now - lost_after,
                context.now - timedelta(days=7),
            )
        if not rows:
            return 0
        by = ActionContext(catalogue, self.name, context.run_id, context.now, standalone=True)
        with context.writing() as connection:
            return len(act(connection, [self._lost(row) for row in rows], by).acted)

    def _lost(self, row: Any) -> JobAction:
        return JobAction(
            row.pandaid,
            "jobsactive4",
            row.jobstatus,
            row.modificationtime,
            row.computingsite,
            row.jeditaskid,
            RULE,
            "failed",
            WORKER_ENDED,
            value_s=row.silent_s,
            limit_s=self.options.lost_after_s,
            detail={"worker": row.worker},
        )


def _place(queue: str, options: BatchQueue, command: Sequence[str] | None, data: Mapping[str, Any]) -> _Place:
    """Return where the pilots of a queue go: as configured, else by the settings of the queue.

    Raises:
        BatchFailed: neither is enough.
    """
    chosen = options.command or command
    if chosen is None:
        raise BatchFailed("no command of pilots is named", f"queue {queue}", "set command in the options of submitter")
    executor, batch_queue = options.executor, options.batch_queue
    if executor is None:
        flavour, address = _batch_system(data)
        if flavour not in _EXECUTORS:
            what = f"its batch system is {flavour or 'not named'}, which is none of {', '.join(_EXECUTORS)}"
            raise BatchFailed(what, f"queue {queue}", "name its executor in the options of submitter")
        executor, batch_queue = _EXECUTORS[flavour], batch_queue or (None if flavour == "FORK" else address)
    params = data.get("params")
    stated = params if isinstance(params, Mapping) else {}
    queue_limits = {name: int(text_number(stated[key])) for key, name in LIMITS.items() if stated.get(key) is not None}
    own = {key: value for key in _LIMITS if (value := getattr(options, key)) is not None}
    limits = SubmissionLimits(
        **{**_LIMITS, **queue_limits, **own},
        longest_wait_s=options.longest_wait_s,
        withdrawn_after_s=options.withdrawn_after_s,
    )
    return _Place(options, data, executor, batch_queue, chosen, limits)


def _batch_system(data: Mapping[str, Any]) -> tuple[str, str | None]:
    """Kind and address of the only batch system of a queue; empty where there is none, or more than one."""
    listed = data.get("queues")
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], Mapping):
        return "", None
    return str(listed[0].get("ce_flavour") or "").upper(), listed[0].get("ce_endpoint")


def _slot(place: _Place, kind: SlotType | None) -> tuple[int, float, float]:
    """Cores, MB and seconds of a pilot, by which its jobs are counted: as configured, else its part of the slot."""
    data = place.data
    of_slot, longest_s = max(int(text_number(data.get("corecount"))), 1), text_number(data.get("maxtime"))
    cores = place.options.cores or cores_of(kind, of_slot)
    if place.options.memory_mb is not None:
        return cores, place.options.memory_mb, longest_s
    return cores, text_number(data.get("maxrss")) * min(cores / of_slot, 1.0), longest_s


def _filled(word: str, values: Mapping[str, str]) -> str:
    """A word of the command with its placeholders filled; other braces stay."""
    for name, value in values.items():
        word = word.replace("{" + name + "}", value)
    return word

"""The agent that counts how many pilots each queue could use, and commands Harvester."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

import sqlalchemy as sa

from agents.classes.classification import queues_on_record
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from broker.domain.work import DroppedRow
from broker.pilots.model.pilot_demand import LIMITS, Demand, Limits, QueueNow, Slot, Starts, pilot_demand, sentence
from broker.pilots.model.worker_distribution import SlotType, StreamedQueue, Workers, new_workers
from broker.pilots.statements import pilot_demand as rows
from broker.pilots.statements.job_giving import text_number
from broker.pilots.statements.pilot_demand import WorkersAtQueue
from broker.store.connection.tables import TableCatalogue
from broker.store.schema import migrate

OWN, PANDA = "own", "panda"
DemandByQueue = dict[str, tuple[Demand, ...]]


class PilotDemandOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        algorithm: how it counts: own, PanDA's unified pilot streaming, or auto: PanDA's with the profile ``panda``.
        limits: of pilots at a queue that sets none itself.
    """

    algorithm: Literal["auto", "own", "panda"] = "auto"
    limits: Limits = Limits()


@dataclass(frozen=True)
class _Read:
    """The input of one cycle's count."""

    queues: Mapping[str, Mapping[str, Any]]
    types: Mapping[str, SlotType]
    workers: Mapping[str, WorkersAtQueue]
    starts: Mapping[str, Starts]
    groups: Mapping[str, list[Any]]
    ranks: Mapping[str, int]
    ignores_meanrss: bool


class PilotDemandAgent(Agent[PilotDemandOptions]):
    """Counts the demand for pilots by queue and resource type, in a standalone installation."""

    name = "pilot_demand"
    title = "how many pilots each queue could use"
    options_type = PilotDemandOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Count once, and write the demand and the commands for Harvester."""
        if migrate.check(context.database) != migrate.STANDALONE:
            return CycleReport(notes=("PanDA counts the demand for its pilots itself",))
        started = perf_counter()
        names, dropped = context.database.names, list[DroppedRow]()
        with context.database.read_snapshot() as connection:
            read = self._read(connection, context, dropped)
            if self.algorithm == PANDA:
                by_queue, commands = _streamed(read)
            else:
                by_queue = self._counted(connection, context, read)
                commands = _commands(by_queue, read)
        context.check()
        self._emit(context, by_queue)
        counts = {"queues": len(by_queue), "wanted": sum(one.wanted or 0 for line in by_queue.values() for one in line)}
        counts |= {"commands": len(commands), "left_out": len(dropped)}
        counted_s = perf_counter() - started
        if context.writes:
            with context.writing() as connection:
                rows.write_demand(connection, names, by_queue, self.algorithm, context.now)
                rows.command_workers(connection, names, commands, context.now)
        return CycleReport(counts, {"count_s": counted_s, "write_s": perf_counter() - started - counted_s})

    @property
    def algorithm(self) -> str:
        """The algorithm of the count: own or panda."""
        if self.options.algorithm != "auto":
            return self.options.algorithm
        return PANDA if self.process.profile == "panda" else OWN

    def _read(self, connection: sa.Connection, context: CycleContext, dropped: list[DroppedRow]) -> _Read:
        names = context.database.names
        catalogue = TableCatalogue.read(connection, names)
        about = queues_on_record(connection, catalogue, dropped)
        ranks, left_out = rows.read_share_order(connection, catalogue, about)
        dropped.extend(left_out)
        return _Read(
            rows.read_queues(connection, names),
            rows.read_types(connection, names),
            rows.read_workers(connection, names, context.now),
            rows.read_starts(connection, names, context.now),
            rows.read_groups(connection, names),
            ranks,
            rows.ignores_meanrss(connection, names),
        )

    def _counted(self, connection: sa.Connection, context: CycleContext, read: _Read) -> DemandByQueue:
        """Count by the broker's own algorithm, for each queue that has jobs or pilots, or is to be kept awake."""
        by_queue: DemandByQueue = {}
        for name, data in read.queues.items():
            groups, workers = read.groups.get(name, []), read.workers.get(name)
            if not (groups or workers or self.options.limits.kept_idle):
                continue
            context.check()
            queue = self._queue_now(name, data, read)
            jobs = rows.waiting_jobs(
                connection, context.database.names, (name, queue.slot), groups, read.ranks, context.now
            )
            demands = pilot_demand(queue, jobs)
            if demands:
                by_queue[name] = demands
        return by_queue

    def _queue_now(self, name: str, data: Mapping[str, Any], read: _Read) -> QueueNow:
        workers = read.workers.get(name)
        return QueueNow(
            _text(data.get("status")),
            Slot(
                int(text_number(data.get("corecount"))),
                text_number(data.get("maxrss")),
                text_number(data.get("maxtime")),
                text_number(data.get("maxwdir")),
            ),
            self._limits(data),
            {} if workers is None else workers.total(),
            read.starts.get(name, Starts()),
            read.types,
        )

    def _limits(self, data: Mapping[str, Any]) -> Limits:
        """The limits set at the queue, else those of the agent."""
        params = _object(data.get("params"))
        own = {field: int(text_number(params[key])) for key, field in LIMITS.items() if params.get(key) is not None}
        by_type = {**self.options.limits.by_type, **_type_limits(data)}
        return self.options.limits.model_copy(update={**own, "by_type": by_type})

    def _emit(self, context: CycleContext, by_queue: DemandByQueue) -> None:
        if context.request.emit is None:
            return
        for queue, demands in by_queue.items():
            for one in demands:
                context.request.emit(
                    {
                        "queue": queue,
                        "resource_type": one.resource_type,
                        "wanted": one.wanted,
                        "reason": one.reason,
                        "why": sentence(one, queue),
                    }
                )


def _commands(by_queue: DemandByQueue, read: _Read) -> list[tuple[str, str, dict[str, int]]]:
    """The commands for the broker's own count, for queues whose Harvester instance has reported."""
    commands = []
    for queue, demands in by_queue.items():
        instance = _instance(read, queue)
        numbers = {one.resource_type: one.wanted for one in demands if one.wanted is not None}
        if instance is not None and numbers:
            commands.append((instance, queue, numbers))
    return commands


def _instance(read: _Read, queue: str) -> str | None:
    """The Harvester instance configured for a queue; None unless its reports still count."""
    named = _text(read.queues[queue].get("harvester"))
    workers = read.workers.get(queue)
    return named if workers is not None and named in workers.by_instance else None


def _streamed(read: _Read) -> tuple[DemandByQueue, list[tuple[str, str, dict[str, int]]]]:
    """Count by PanDA's unified pilot streaming, for pull_ups queues whose instance has reported."""
    by_queue: DemandByQueue = {}
    commands = []
    for name, data in read.queues.items():
        if data.get("capability") != "ucore" or data.get("workflow") != "pull_ups":
            continue
        groups, workers = read.groups.get(name, []), read.workers.get(name)
        instance = _instance(read, name)
        if workers is None or instance is None:
            by_queue[name] = _not_streamed(groups)
            continue
        of_instance = workers.by_instance[instance]
        jobs = rows.types_in_order(groups, read.ranks)
        numbers = new_workers(_streamed_queue(data, read.ignores_meanrss), read.types, of_instance, jobs)
        commands.append((instance, name, numbers))
        by_queue[name] = tuple(
            _of_panda(kind, number, groups, of_instance.get(kind, Workers())) for kind, number in numbers.items()
        )
    return {name: demands for name, demands in by_queue.items() if demands}, commands


def _of_panda(kind: str, number: int, groups: list[Any], workers: Workers) -> Demand:
    jobs = sum(group.number for group in groups if group.resource_type == kind)
    return Demand(kind, jobs, jobs, {}, workers.queued, workers.running, number, 0, "panda")


def _not_streamed(groups: list[Any]) -> tuple[Demand, ...]:
    jobs: dict[str, int] = {}
    for group in groups:
        jobs[group.resource_type] = jobs.get(group.resource_type, 0) + group.number
    return tuple(Demand(kind, n, n, {}, None, None, None, 0, "no_instance") for kind, n in jobs.items())


def _streamed_queue(data: Mapping[str, Any], ignores_meanrss: bool) -> StreamedQueue:
    return StreamedQueue(
        _text(data.get("status")),
        int(text_number(data.get("corecount"))) or 1,
        text_number(data.get("maxrss")),
        "per_core_attr" in str(data.get("catchall") or ""),
        text_number(data.get("meanrss")),
        int(text_number(_object(data.get("params")).get("ups_core_target"))),
        _type_limits(data),
        ignores_meanrss,
    )


def _type_limits(data: Mapping[str, Any]) -> dict[str, int]:
    limits = _object(_object(data.get("uconfig")).get("resource_type_limits"))
    return {str(name): int(text_number(limit)) for name, limit in limits.items() if limit is not None}


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None

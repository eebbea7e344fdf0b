"""The service: runs every agent on its period, under its lease, until asked to stop.

The schedule is kept in memory, so two services never share one; the leases decide which of them acts. A newly elected
service runs the agent at once, and then on its period.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import queue
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agents.service import clock, cycle
from agents.service.base import Agent, CycleContext
from agents.service.clock import ClockWatch
from agents.service.configuration import AgentSection, ConfigurationError, ServiceSection
from agents.service.leadership import STOP_WITHIN_S, LeaseKeeper
from agents.service.schedule import Schedule
from broker import __version__
from broker.domain.parts import WHOLE, Part, parts_of
from broker.errors import Refused
from broker.store.connection.database import Database
from broker.store.connection.errors import SchemaTooNew
from broker.store.connection.open_connections import OpenConnections
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.schema import migrate
from broker.store.service import agent_runs, services
from broker.store.service.agent_pauses import AgentPaused
from broker.store.service.agent_runs import RunRecord

_log = logging.getLogger(__name__)

_SCHEMA_UNKNOWN: tuple[type[Exception], ...] = (Refused, *TRANSIENT_ERRORS)

SEED_BITS = 31
BEAT_WITHIN_S = 3.0
"""Seconds that a heartbeat may take."""
CUT_AFTER = 0.75
"""Fraction of the stop time after which running cycles lose their connections, in which one of them may hang."""
FAILING = ("failed", "overdue")
"""Outcomes that make an agent count as failing when they follow one another; the others pass, or have a reason."""
LOOK_EVERY_S = 1.0
"""Seconds between two checks of a service's own health."""
TRIED_AGAIN = ("failed_transient", "overdue")
"""Outcomes after which a cycle is retried early."""


@dataclass(frozen=True)
class ScheduledAgent:
    """An agent and its schedule, for all of its work or for one part of it."""

    agent: Agent[Any]
    section: AgentSection
    part: Part = WHOLE

    @property
    def name(self) -> str:
        """Name of the lease, which is that of the agent if its work is undivided."""
        return self.part.lease_of(self.agent.name)


def retry_delay_s(failures: int, settings: ServiceSection, period_s: float, jitter: float) -> float:
    """Return the seconds to wait after the ``failures``-th transient failure in a row.

    The pause doubles from ``retry_first_s`` up to ``retry_longest_s`` or the period, and is between half and the whole
    of it; ``jitter`` in [0, 1) spreads the services.
    """
    longest_s = min(settings.retry_longest_s, period_s)
    whole_s = min(longest_s, settings.retry_first_s * 2.0 ** min(failures - 1, 30))
    return whole_s * (0.5 + 0.5 * jitter)


class Service:
    """All agents of one process.

    Attributes:
        ending: set this to stop the service; a signal handler may do so.
        ended_unhealthy: whether the service ended because it was unhealthy for too long.
    """

    def __init__(
        self,
        database: Database,
        agents: list[ScheduledAgent],
        keeper: LeaseKeeper,
        settings: ServiceSection,
        now: Callable[[], datetime] = clock.host_now,
        steady: Callable[[], float] = clock.steady_s,
    ) -> None:
        """Prepare a service; nothing runs before :meth:`run`.

        ``now`` and ``steady`` are the host's clocks; they are only compared with the database's clock, which decides.
        """
        self.ending = threading.Event()
        self.ended_unhealthy = False
        self._database = database
        self._agents = {agent.name: agent for agent in agents}
        self._keeper = keeper
        self._settings = settings
        self._read_clocks = functools.partial(clock.read_clocks, host=now, steady=steady)
        self._clocks = ClockWatch(settings.clock_limit_s, settings.clocks_agree_for_s)
        self._failures: dict[str, int] = dict.fromkeys(self._agents, 0)
        self._failed: dict[str, int] = dict.fromkeys(self._agents, 0)
        self._overdue: set[str] = set()
        self._overdue_reports: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self._paused: set[str] = set()
        self._running: dict[str, OpenConnections] = {}
        self._idle = threading.Condition()
        self._schedule = Schedule(len(agents) + 1)
        self._beaten_s = time.monotonic()

    def run(self, end_when_unhealthy_s: float = float("inf")) -> bool:
        """Run until :attr:`ending` is set; True if every cycle ended in time, False if one had to be abandoned.

        A service whose cycles are overdue or fail, or that writes no heartbeat, ends by itself once that has lasted for
        ``end_when_unhealthy_s``: only the end of its process removes a thread that hangs. In any case the leases have
        been given up, so whatever an abandoned cycle still tries to write is refused.
        """
        self._plan()
        self._beaten_s = time.monotonic()
        self._schedule.start()
        self._keeper.start()
        _log.info("service started", extra={"fields": {"holder": self._keeper.holder, "agents": sorted(self._agents)}})
        unhealthy_since: float | None = None
        while not self.ending.wait(LOOK_EVERY_S):
            self._write_down_overdue()
            self._schedule.look()
            now_s = time.monotonic()
            unhealthy_since = (unhealthy_since or now_s) if self._is_unhealthy() else None
            if unhealthy_since is not None and now_s - unhealthy_since >= end_when_unhealthy_s:
                fields = self._state() | {"heartbeat_s_ago": now_s - self._beaten_s}
                _log.error("service ends: not healthy for too long", extra={"fields": fields})
                self.ended_unhealthy = True
                break
        return self._stop()

    def _state(self) -> dict[str, Any]:
        """Return the state that the service reports with each heartbeat."""
        limit = self._settings.failing_after
        return {
            "healthy_within_s": self._settings.healthy_within_s,
            "overdue": sorted(self._overdue),
            "failing": {name: cycles for name, cycles in self._failed.items() if cycles >= limit},
            "feeds": sorted({scheduled.agent.name for scheduled in self._agents.values() if scheduled.agent.is_feed}),
            "parts": {
                scheduled.agent.name: scheduled.part.of
                for scheduled in self._agents.values()
                if not scheduled.part.is_whole
            },
        }

    def _is_unhealthy(self) -> bool:
        state = self._state()
        ill = (name for name in (*state["overdue"], *state["failing"]) if not self._agents[name].agent.is_feed)
        silent_s = time.monotonic() - self._beaten_s
        return silent_s > self._settings.healthy_within_s or any(ill)

    def run_each_once(self) -> dict[str, RunRecord | None]:
        """Run every agent once, now, part after part; return records by lease, None for what another service leads."""
        try:
            return {name: self._run_under_new_lease(scheduled) for name, scheduled in self._agents.items()}
        finally:
            self._keeper.stop()

    def _run_under_new_lease(self, scheduled: ScheduledAgent) -> RunRecord | None:
        if self._keeper.acquire(scheduled.name) is None:
            return None
        self._keeper.start()
        return self._cycle(scheduled, OpenConnections())

    def _plan(self) -> None:
        for name, scheduled in self._agents.items():
            fire = functools.partial(self._fire, name)
            self._schedule.add(name, fire, scheduled.section.period_s, scheduled.section.misfire_grace_s)
            self._keeper.want(name, functools.partial(self._start_soon, name))
        self._schedule.add("heartbeat", self._beat, self._settings.heartbeat_every_s, at_once=True)

    def _start_soon(self, name: str) -> None:
        """Start a newly elected leader at once, or after a pause if the last cycles failed."""
        self._bring_forward(name, self._pause_s(name))

    def _bring_forward(self, name: str, delay_s: float) -> None:
        if not self.ending.is_set():
            self._schedule.bring_forward(name, delay_s)

    def _fire(self, name: str) -> None:
        """Start an agent on schedule; does nothing if this service does not lead it."""
        connections = OpenConnections()
        with self._idle:
            if self.ending.is_set() or self._keeper.lease(name) is None:
                return
            self._running[name] = connections
        try:
            record = self._cycle(self._agents[name], connections)
        finally:
            self._overdue.discard(name)
            self._keeper.ask_again(name)
            with self._idle:
                del self._running[name]
                self._idle.notify_all()
        self._step_aside(name, record)
        self._hand_over(name)
        self._plan_retry(name, record)

    def _hand_over(self, name: str) -> None:
        """Hand a part over, between two cycles, to a broker that leads fewer of them."""
        try:
            self._keeper.hand_over(name)
        except TRANSIENT_ERRORS as error:
            _log.warning("parts not compared: database", extra={"fields": {"lease": name, "error": str(error)}})

    def _step_aside(self, name: str, record: RunRecord) -> None:
        """Stop leading after a newer broker has upgraded the schema: only the newer broker can do the work.

        Every cycle here is refused from then on, and the newer broker waits for the lease.
        """
        if record.outcome != "refused":
            return
        try:
            migrate.check(self._database)
        except SchemaTooNew as error:
            self._keeper.give_up(name)
            _log.error("agent left to a newer broker", extra={"fields": {"agent": name, "error": str(error)}})
        except _SCHEMA_UNKNOWN as error:
            _log.warning("schema not checked", extra={"fields": {"agent": name, "error": str(error)}})

    def _cycle(self, scheduled: ScheduledAgent, connections: OpenConnections) -> RunRecord:
        name = scheduled.name
        lease = self._keeper.lease(name)
        if lease is None:
            return RunRecord(outcome="lost_lease", error="the lease was lost before the cycle started")
        try:
            clocks = self._read_clocks(self._database)
            run_id = cycle.open_run(self._database, scheduled.agent.name, lease, scheduled.section.cycle_budget_s)
        except AgentPaused as error:
            if name not in self._paused:
                _log.info("agent paused", extra={"fields": {"agent": name, "error": str(error)}})
            self._paused.add(name)
            return RunRecord(outcome="paused", error=str(error))
        except SchemaTooNew as error:
            return RunRecord(outcome="refused", error=str(error))
        except TRANSIENT_ERRORS as error:
            fields = {"agent": name, "error": str(error)}
            _log.warning("cycle not started: database", extra={"fields": fields})
            return RunRecord(outcome="failed_transient", error=str(error))
        self._paused.discard(name)
        context = CycleContext(
            self._database,
            clocks.database,
            secrets.randbits(SEED_BITS),
            scheduled.section.cycle_budget_s,
            lease=lease,
            run_id=run_id,
            believes=self._keeper.trusts,
            ending=self.ending,
            connections=connections,
            clock_faults=self._clocks.check(clocks),
            when_overdue=functools.partial(self._give_up, name, run_id),
        )
        return cycle.run_cycle(scheduled.agent, context)

    def _give_up(self, name: str, run_id: int, details: str) -> None:
        """Let another service lead ``name``, whose cycle is overdue, until the cycle returns."""
        self._overdue.add(name)
        self._keeper.give_up(name)
        self._overdue_reports.put((run_id, details))

    def _write_down_overdue(self) -> None:
        """Close the rows of cycles that became overdue: they may never return to do so themselves."""
        while not self._overdue_reports.empty():
            run_id, details = self._overdue_reports.get()
            try:
                with self._keeper.database.within(BEAT_WITHIN_S) as database, database.begin() as connection:
                    agent_runs.finish(connection, run_id, RunRecord(outcome="overdue", error=details))
            except TRANSIENT_ERRORS as error:
                fields = {"run": run_id, "error": str(error)}
                _log.warning("overdue cycle not written down: database", extra={"fields": fields})

    def _plan_retry(self, name: str, record: RunRecord) -> None:
        self._failed[name] = self._failed[name] + 1 if record.outcome in FAILING else 0
        if record.outcome not in TRIED_AGAIN:
            self._failures[name] = 0
            return
        self._failures[name] += 1
        self._bring_forward(name, self._pause_s(name))

    def _pause_s(self, name: str) -> float:
        """Return the seconds to wait after successive transient failures of ``name``; 0 if the last was none."""
        if self._failures[name] == 0:
            return 0.0
        jitter = random.random()  # noqa: S311 - spreads services in time, nothing secret
        return retry_delay_s(self._failures[name], self._settings, self._agents[name].section.period_s, jitter)

    def _beat(self) -> None:
        try:
            with self._keeper.database.within(BEAT_WITHIN_S) as database, database.begin() as connection:
                host, agents = (
                    socket.gethostname(),
                    sorted({scheduled.agent.name for scheduled in self._agents.values()}),
                )
                services.beat(connection, self._keeper.holder, host, __version__, agents, self._state())
            self._beaten_s = time.monotonic()
        except TRANSIENT_ERRORS as error:
            _log.warning("no heartbeat: database", extra={"fields": {"error": str(error)}})

    def _stop(self) -> bool:
        _log.info("service stopping", extra={"fields": {"holder": self._keeper.holder}})
        self._schedule.end()
        if not self._all_ended(CUT_AFTER * self._settings.stop_within_s):
            for connections in list(self._running.values()):
                connections.cut("the service is stopping")
        in_time = self._all_ended((1 - CUT_AFTER) * self._settings.stop_within_s)
        left_behind = sorted(self._running)
        if self._keeper.stop():
            self._leave()
        fields = {"holder": self._keeper.holder, "left_behind": left_behind}
        _log.log(logging.INFO if in_time else logging.ERROR, "service stopped", extra={"fields": fields})
        return in_time

    def _leave(self) -> None:
        with (
            contextlib.suppress(*TRANSIENT_ERRORS),
            self._keeper.database.within(STOP_WITHIN_S) as database,
            database.begin() as connection,
        ):
            services.leave(connection, self._keeper.holder)

    def _all_ended(self, within_s: float) -> bool:
        """Wait for the running cycles; return whether all of them have ended."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._running, within_s)


def enabled_agents(
    sections: Mapping[str, AgentSection],
    make: Callable[[str, Mapping[str, Any]], Agent[Any]],
    installation: str = migrate.STANDALONE,
) -> list[ScheduledAgent]:
    """Return the agents that the configuration enables in an installation, with their options, one for each part.

    Raises:
        ConfigurationError: the work of an agent is configured to be divided but cannot be.
    """
    return [
        ScheduledAgent(_divisible(make(name, section.options), part), section, part)
        for name, section in sections.items()
        if section.runs(installation)
        for part in parts_of(section.parts)
    ]


def _divisible(agent: Agent[Any], part: Part) -> Agent[Any]:
    because = "" if part.is_whole else agent.not_divisible()
    if because:
        raise ConfigurationError(f"parts: {part.of}: {because}", f"config/agents.yaml, {agent.name}", "set parts: 1")
    return agent

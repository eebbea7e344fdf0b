"""The service: every agent on its period, under its lease, until somebody asks it to stop.

The schedule is kept in memory, so that two services never share one; which of them acts is decided by the leases. A
service that is elected runs the agent at once, and then on its period.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from agents import cycle
from agents.base import Agent, CycleContext
from agents.configuration import AgentSection, ServiceSection
from agents.leadership import LeaseKeeper
from broker import __version__
from broker.store import services
from broker.store.agent_runs import RunRecord
from broker.store.database import Database
from broker.store.transient import TRANSIENT_ERRORS

_log = logging.getLogger(__name__)

SEED_BITS = 31


@dataclass(frozen=True)
class ScheduledAgent:
    """An agent and when it runs."""

    agent: Agent[Any]
    section: AgentSection


def retry_delay_s(failures: int, settings: ServiceSection, period_s: float, jitter: float) -> float:
    """Seconds to wait after the ``failures``-th transient failure in a row; ``jitter`` in [0, 1) spreads the services.

    The pause doubles from ``retry_first_s`` up to ``retry_longest_s`` or the period, and is between half and the
    whole of it.
    """
    longest_s = min(settings.retry_longest_s, period_s)
    whole_s = min(longest_s, settings.retry_first_s * 2.0 ** min(failures - 1, 30))
    return whole_s * (0.5 + 0.5 * jitter)


class Service:
    """All agents of one process.

    Attributes:
        ending: set it to stop the service; a signal handler may do so.
    """

    def __init__(
        self,
        database: Database,
        agents: list[ScheduledAgent],
        keeper: LeaseKeeper,
        settings: ServiceSection,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Prepare a service; nothing runs before :meth:`run`."""
        self.ending = threading.Event()
        self._database = database
        self._agents = {one.agent.name: one for one in agents}
        self._keeper = keeper
        self._settings = settings
        self._now = now
        self._failures: dict[str, int] = dict.fromkeys(self._agents, 0)
        self._running = 0
        self._idle = threading.Condition()
        self._scheduler = BackgroundScheduler(
            jobstores={"default": MemoryJobStore()},
            executors={"default": ThreadPoolExecutor(len(agents) + 1)},
            timezone=UTC,
        )

    def run(self) -> bool:
        """Run until :attr:`ending` is set; True when every cycle ended in time, False when one had to be left behind.

        Either way the leases have been given up: what an abandoned cycle still tries to write is refused.
        """
        self._schedule()
        self._scheduler.start()
        self._keeper.start()
        _log.info("service started", extra={"fields": {"holder": self._keeper.holder, "agents": sorted(self._agents)}})
        self.ending.wait()
        return self._stop()

    def run_each_once(self) -> dict[str, RunRecord | None]:
        """Run every agent once, now; None for those that another service leads."""
        try:
            return {name: self._run_under_new_lease(one) for name, one in self._agents.items()}
        finally:
            self._keeper.stop()

    def _run_under_new_lease(self, one: ScheduledAgent) -> RunRecord | None:
        if self._keeper.acquire(one.agent.name) is None:
            return None
        self._keeper.start()
        return self._cycle(one)

    def _schedule(self) -> None:
        for name, one in self._agents.items():
            self._scheduler.add_job(
                self._fire,
                "interval",
                seconds=one.section.period_s,
                args=[name],
                id=name,
                max_instances=1,
                coalesce=True,
                misfire_grace_time=max(1, int(one.section.misfire_grace_s)),
            )
            self._keeper.want(name, functools.partial(self._bring_forward, name, 0.0))
        self._scheduler.add_job(
            self._beat,
            "interval",
            seconds=self._settings.heartbeat_every_s,
            id="heartbeat",
            max_instances=1,
            coalesce=True,
            next_run_time=datetime.now(UTC),
        )

    def _bring_forward(self, name: str, delay_s: float) -> None:
        if not self.ending.is_set():
            self._scheduler.modify_job(name, next_run_time=datetime.now(UTC) + timedelta(seconds=delay_s))

    def _fire(self, name: str) -> None:
        """One start of an agent by the schedule; a service that does not lead it does nothing."""
        with self._idle:
            if self.ending.is_set() or self._keeper.lease(name) is None:
                return
            self._running += 1
        try:
            record = self._cycle(self._agents[name])
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()
        self._plan_retry(name, record)

    def _cycle(self, one: ScheduledAgent) -> RunRecord:
        name = one.agent.name
        lease = self._keeper.lease(name)
        if lease is None:
            return RunRecord("lost_lease", error="the lease was lost before the cycle started")
        try:
            run_id = cycle.open_run(self._database, name, lease)
        except TRANSIENT_ERRORS as error:
            fields = {"agent": name, "error": str(error)}
            _log.warning("cycle not started: database", extra={"fields": fields})
            return RunRecord("failed_transient", error=str(error))
        context = CycleContext(
            self._database,
            self._now(),
            secrets.randbits(SEED_BITS),
            one.section.cycle_budget_s,
            lease=lease,
            run_id=run_id,
            believes=self._keeper.trusts,
            ending=self.ending,
        )
        return cycle.run_cycle(one.agent, context)

    def _plan_retry(self, name: str, record: RunRecord) -> None:
        if record.outcome != "failed_transient":
            self._failures[name] = 0
            return
        self._failures[name] += 1
        period_s = self._agents[name].section.period_s
        jitter = random.random()  # noqa: S311 - spreads services in time, nothing secret
        self._bring_forward(name, retry_delay_s(self._failures[name], self._settings, period_s, jitter))

    def _beat(self) -> None:
        try:
            with self._database.begin() as connection:
                services.beat(connection, self._keeper.holder, socket.gethostname(), __version__, sorted(self._agents))
        except TRANSIENT_ERRORS as error:
            _log.warning("no heartbeat: database", extra={"fields": {"error": str(error)}})

    def _stop(self) -> bool:
        _log.info("service stopping", extra={"fields": {"holder": self._keeper.holder}})
        self._scheduler.shutdown(wait=False)
        deadline = time.monotonic() + self._settings.stop_within_s
        with self._idle:
            while self._running and (left_s := deadline - time.monotonic()) > 0:
                self._idle.wait(left_s)
            in_time = self._running == 0
        self._keeper.stop()
        with contextlib.suppress(*TRANSIENT_ERRORS), self._database.begin() as connection:
            services.leave(connection, self._keeper.holder)
        _log.info("service stopped", extra={"fields": {"holder": self._keeper.holder, "cycles_ended": in_time}})
        return in_time


def enabled_agents(
    sections: Mapping[str, AgentSection], make: Callable[[str, Mapping[str, Any]], Agent[Any]]
) -> list[ScheduledAgent]:
    """The agents that the configuration enables, made with their options."""
    return [
        ScheduledAgent(make(name, section.options), section) for name, section in sections.items() if section.enabled
    ]

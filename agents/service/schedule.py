"""Scheduling of the periodic jobs of a service, robust against changes of the host's clock.

The scheduler plans by the host's clock. If that is set back, it would wait for as long as the clock jumped; so a check
of the jobs, by a clock that nobody sets, brings forward each one due later than its period. If the clock is set
forward, the scheduler would count every period in between; so the trigger skips them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from agents.service.clock import host_now

_log = logging.getLogger(__name__)

LATE_AFTER_S = 1.0
"""Seconds after which a job has missed its start because of a clock, and not because of a busy machine."""


class Periodic(BaseTrigger):  # type: ignore[misc]  # the package has no types
    """Fires each ``period``, counted from the last start; of several missed periods only the last one counts."""

    __slots__ = ("period",)

    def __init__(self, period: timedelta) -> None:
        self.period = period

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Return the next start after ``previous_fire_time``; if starts were missed, the last of them."""
        if previous_fire_time is None:
            return now + self.period
        return previous_fire_time + self.period * max(1, (now - previous_fire_time) // self.period)


class Schedule:
    """Named jobs, each with a period, in threads of their own."""

    def __init__(self, threads: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Create an empty schedule; nothing runs before :meth:`start`."""
        self._monotonic = monotonic
        self._periods: dict[str, timedelta] = {}
        self._due: dict[str, tuple[datetime, float]] = {}
        self._lock = threading.Lock()
        self._scheduler = BackgroundScheduler(
            jobstores={"default": MemoryJobStore()}, executors={"default": ThreadPoolExecutor(threads)}, timezone=UTC
        )

    def add(
        self, name: str, call: Callable[[], None], period_s: float, grace_s: float = 1.0, *, at_once: bool = False
    ) -> None:
        """Call ``call`` every ``period_s``, never twice at a time; a start that is late by ``grace_s`` is skipped."""
        self._periods[name] = period = timedelta(seconds=period_s)
        self._scheduler.add_job(
            call,
            Periodic(period),
            id=name,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=max(1, int(grace_s)),
            **({"next_run_time": host_now()} if at_once else {}),
        )

    def bring_forward(self, name: str, delay_s: float) -> None:
        """Move the next start of a job to ``delay_s`` from now."""
        self._scheduler.modify_job(name, next_run_time=host_now() + timedelta(seconds=delay_s))

    def start(self) -> None:
        """Start running jobs."""
        self._scheduler.start()

    def end(self) -> None:
        """Start no more jobs; those that are running are not waited for."""
        self._scheduler.shutdown(wait=False)

    def look(self) -> list[str]:
        """Start the jobs overdue by the monotonic clock and return their names. To be called about once a second."""
        with self._lock:
            late = [job.id for job in self._scheduler.get_jobs() if self._is_late(job.id, job.next_run_time)]
        for name in late:
            self.bring_forward(name, 0.0)
        if late:
            fields = {"jobs": late}
            _log.warning(
                "jobs brought forward: not started in time; was the host's clock set back?", extra={"fields": fields}
            )
        return late

    def _is_late(self, name: str, planned: datetime) -> bool:
        known_planned, due_s = self._due.get(name, (None, 0.0))
        now_s = self._monotonic()
        if planned == known_planned:
            return now_s > due_s + LATE_AFTER_S
        left = min(max(planned - host_now(), timedelta()), self._periods[name])
        self._due[name] = planned, now_s + left.total_seconds()
        return False

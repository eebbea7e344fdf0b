"""The broker inside one process of JEDI: database, snapshot, time limits and counts, made when first needed.

JEDI makes its brokers anew for every chunk and forks its processes, so all that costs lives here, once a process.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import platformdirs

from broker import __version__
from broker.alongside.statements import plugin_calls
from broker.alongside.statements.plugin_calls import Call
from broker.brokerages.base import Rules
from broker.brokerages.production_task.assign import AssignedTask
from broker.domain.decision_records import DecisionRecord, Origin
from broker.settings import Settings
from broker.store.connection.database import Database
from broker.store.connection.errors import DatabaseUnavailable
from broker.store.connection.opening import open_database
from broker.store.decisions import decision_writing
from broker.store.snapshots import stored_snapshots
from gridbroker_jedi.answer import Answer
from gridbroker_jedi.chunk import ChunkTables
from gridbroker_jedi.decide import PRODUCTION, TASKS, Decided, decide_chunk, decide_tasks, hours_of_ended_jobs
from gridbroker_jedi.grid import GridKeeper, GridView, read_rules, readers_of
from gridbroker_jedi.mirror import OwnTask, copy_claimed_tasks
from gridbroker_jedi.settings import PluginSettings, read_settings

LOG = logging.getLogger("gridbroker_jedi")
T = TypeVar("T")
APPLICATION = "gridbroker-jedi"


class NoDecisionError(Exception):
    """The engine has no answer in time; ``reason`` is one of those that are counted.

    ``timeout``, ``unreachable``, ``stale_snapshot``, ``error``.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


@dataclass(frozen=True)
class _Parts:
    database: Database
    keepers: Mapping[str, GridKeeper]
    rules: Mapping[str, Rules]


class BrokerService:
    """What the brokers of one process share.

    Args:
        settings: of the plug-in.
        clock: the time now (aware).
    """

    def __init__(self, settings: PluginSettings, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.settings, self._clock = settings, clock
        self._parts: _Parts | None = None
        self._making, self._closed_until = threading.Lock(), 0.0
        self._pool = ThreadPoolExecutor(settings.threads, thread_name_prefix="gridbroker")
        self._behind = ThreadPoolExecutor(1, thread_name_prefix="gridbroker-notes")
        self._stored: set[str] = set()

    def chunk(
        self,
        brokerage: str,
        tables: ChunkTables,
        placed: Callable[[Mapping[str, str]], Mapping[str, int]],
        own: OwnTask | None = None,
    ) -> Answer:
        """The decision on a chunk.

        Args:
            brokerage: that decides.
            tables: the chunk.
            placed: jobs that JEDI has placed, by unified queue, from the names of queues.
            own: of which the copies are brought up to date where PanDA's tables are mirrored.

        Raises:
            NoDecisionError: there is none in time.
        """
        now = self._clock()

        def decide() -> tuple[GridView, Decided]:
            parts, view = self._usable(brokerage, now)
            queues = view.reading.snapshot.queues
            names = dict(zip(queues.name.tolist(), queues.unified_name.tolist(), strict=True))
            if view.mirrored and own is not None:
                hours = hours_of_ended_jobs(view, brokerage, tables)
                own.copy(parts.database, self._clock, parameters=brokerage != PRODUCTION, done_job_hours=hours)
            with parts.database.read_snapshot() as connection:
                return view, decide_chunk(connection, view, brokerage, parts.rules, tables, placed(names), now)

        view, decided = self._in_time(decide)
        if self.settings.record:
            record = DecisionRecord(decided.answer.decision, {}, None, decided.work)
            self._later(lambda: self._keep(view, now, [record]))
        return decided.answer

    def tasks(
        self, vo: str, tasks: Sequence[int], seed: int, task_buffer: Any = None
    ) -> list[tuple[AssignedTask, str | None]]:
        """The decision on each of the tasks that JEDI has claimed, with the nucleus that was drawn.

        ``task_buffer``: JEDI's, through which the copies of the tasks are brought up to date in mode ``mirrored``.

        Raises:
            NoDecisionError: there is none in time.
        """
        now = self._clock()

        def decide() -> tuple[GridView, list[tuple[AssignedTask, str | None]]]:
            parts, view = self._usable(TASKS, now)
            if view.mirrored and task_buffer is not None:
                copy_claimed_tasks(parts.database, task_buffer, self._clock, tasks)
            with parts.database.read_snapshot() as connection:
                return view, decide_tasks(connection, view, parts.rules, vo, tasks, now, seed)

        view, decided = self._in_time(decide)
        if self.settings.record:
            records = [DecisionRecord(one.decision, {} if name is None else {name: 1}) for one, name in decided]
            self._later(lambda: self._keep(view, now, records))
        return decided

    def count(self, brokerage: str, outcome: str, reason: str) -> None:
        """Count a call, here and in the database; never waits and never fails."""
        call = Call(brokerage, outcome, reason)
        at = self._clock()
        self._later(lambda: self._note(call, at))

    def close(self) -> None:
        """Let go of threads and connections."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._behind.shutdown(wait=True)
        if self._parts is not None:
            self._parts.database.close()

    def _in_time(self, decide: Callable[[], T]) -> T:
        if monotonic() < self._closed_until:
            raise NoDecisionError("unreachable", "the database was not reached a moment ago")
        future = self._pool.submit(decide)
        try:
            return future.result(self.settings.timeout_s)
        except TooLate as error:
            future.cancel()
            raise NoDecisionError("timeout", f"no decision within {self.settings.timeout_s:g} s") from error
        except NoDecisionError:
            raise
        except DatabaseUnavailable as error:
            self._closed_until = monotonic() + self.settings.retry_s
            raise NoDecisionError("unreachable", str(error)) from error
        except Exception as error:
            LOG.exception("the engine failed")
            raise NoDecisionError("error", f"{type(error).__name__}: {error}"[:300]) from error

    def _usable(self, brokerage: str, now: datetime) -> tuple[_Parts, GridView]:
        """The parts and a view that is young enough."""
        parts = self._made()
        if brokerage not in parts.keepers:
            asked = f"profile {self.settings.profile} has no brokerage {brokerage}"
            raise NoDecisionError("error", f"{asked}; name a class for {', '.join(parts.keepers)} in modConfig")
        view = parts.keepers[brokerage].view()
        age = now - view.as_of
        if age > timedelta(seconds=self.settings.stale_s):
            limit = f"limit {self.settings.stale_s:g} s"
            raise NoDecisionError("stale_snapshot", f"the snapshot is {age.total_seconds():.0f} s old ({limit})")
        unusable = [state.name for state in view.reading.snapshot.unusable(("queues",))]
        if unusable:
            raise NoDecisionError("stale_snapshot", f"source {unusable[0]} cannot be used")
        return parts, view

    def _made(self) -> _Parts:
        with self._making:
            if self._parts is None:
                settings = self.settings
                own = Settings()
                home = Path(platformdirs.user_data_dir("gridbroker", appauthor=False))
                url = settings.url() or own.database_url
                database = open_database(
                    url, home, panda_schema=own.panda_schema, meta_schema=own.meta_schema, application_name=APPLICATION
                )
                refresh = timedelta(seconds=settings.refresh_s)
                rules = read_rules(settings.profile, settings.config)
                readers = readers_of(rules, settings.config)
                keepers = {name: GridKeeper(database, reader, self._clock, refresh) for name, reader in readers.items()}
                self._parts = _Parts(database, keepers, rules)
            return self._parts

    def _later(self, note: Callable[[], None]) -> None:
        def run() -> None:
            try:
                note()
            except Exception:
                # a note that is lost must not cost a decision; that it is lost is said
                LOG.exception("a note could not be written")

        self._behind.submit(run)

    def _note(self, call: Call, at: datetime) -> None:
        if monotonic() < self._closed_until:
            return
        with self._made().database.begin() as connection:
            plugin_calls.add(connection, call, at)

    def _keep(self, view: GridView, now: datetime, records: Sequence[DecisionRecord]) -> None:
        snapshot = view.reading.snapshot
        origin = Origin(None, now, snapshot.id, view.published.version, 0, __version__)
        with self._made().database.begin() as connection:
            decision_writing.save(Database.raw(connection), origin, records)
            # last, as the service does it: two that store the same parts in another order would wait for each other
            if snapshot.id not in self._stored:
                stored_snapshots.save(
                    connection, snapshot.id, snapshot.taken_at, __version__, view.reading.parts, view.reading.about
                )
        self._stored.add(snapshot.id)


_SERVICES: dict[int, BrokerService] = {}
_MAKING = threading.Lock()


def service() -> BrokerService:
    """The service of this process; a process that was forked makes its own.

    Raises:
        pydantic.ValidationError: the section of the configuration cannot be used.
    """
    process = os.getpid()
    with _MAKING:
        if process not in _SERVICES:
            _SERVICES[process] = BrokerService(read_settings())
        return _SERVICES[process]


def _after_fork() -> None:
    # a lock held by a thread that the child does not have would never be released
    global _MAKING
    _MAKING = threading.Lock()
    _SERVICES.clear()


os.register_at_fork(after_in_child=_after_fork)

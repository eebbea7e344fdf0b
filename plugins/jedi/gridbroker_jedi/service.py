"""The broker inside one process of JEDI: database, snapshot, time limits and counts, created when first needed.

JEDI creates its brokers anew for every chunk and forks its processes, so everything expensive lives here, once per
process.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, TimeoutError as TooLate
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import platformdirs
import sqlalchemy as sa

from broker import __version__
from broker.alongside.answers.call_files import shipped_folder
from broker.alongside.statements.plugin_calls import Call
from broker.brokerages.base import Rules
from broker.brokerages.production_task.assign import AssignedTask
from broker.domain.decisions import DecisionRecord, Origin
from broker.settings import Settings
from broker.store.connection.database import Database
from broker.store.connection.errors import (
    ConnectionCut,
    DatabaseUnavailable,
    MigrationChanged,
    SchemaMissing,
    SchemaOutdated,
    SchemaTooNew,
)
from broker.store.connection.opening import open_database
from broker.store.connection.panda_columns import ColumnsChanged
from broker.store.decisions import decision_writing
from broker.store.snapshots import stored_snapshots
from gridbroker_jedi.answer import Answer
from gridbroker_jedi.breaker import Breaker
from gridbroker_jedi.chunk import ChunkTables
from gridbroker_jedi.counting import NOTE_S, Notes
from gridbroker_jedi.decide import PRODUCTION, TASKS, Decided, decide_chunk, decide_tasks, hours_of_ended_jobs
from gridbroker_jedi.grid import GridKeeper, GridView, OwnSchemaChanged, read_rules, readers_of
from gridbroker_jedi.mirror import OwnTask, copy_claimed_tasks
from gridbroker_jedi.settings import PluginSettings, read_settings
from gridbroker_jedi.switch import SwitchReader

LOG = logging.getLogger("gridbroker_jedi")
T = TypeVar("T")
APPLICATION = "gridbroker-jedi"
#: SQLSTATEs of a statement that was ended by its time limit or by the limit of its wait for a lock.
CANCELLED = ("57014", "55P03")


class NoDecisionError(Exception):
    """The engine had no answer in time; ``reason`` is one of the reasons that are counted.

    ``timeout``, ``breaker``, ``unreachable``, ``starting``, ``stale_snapshot``, ``column_gone``, ``schema_changed``,
    ``error``.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class LeftToPandaError(Exception):
    """The switch leaves the task to PanDA's own class; ``reason`` is one of the reasons that are counted."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
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
        ticks: seconds of a monotonic clock.
    """

    def __init__(
        self,
        settings: PluginSettings,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        ticks: Callable[[], float] = monotonic,
    ) -> None:
        self.settings, self._clock = settings, clock
        self._parts: _Parts | None = None
        self._making = threading.Lock()
        self._breaker = Breaker(settings.retry_s, ticks)
        self._switch = SwitchReader(timedelta(seconds=settings.switch_s), clock)
        self._pool = ThreadPoolExecutor(settings.threads, thread_name_prefix="gridbroker")
        folder = settings.calls_folder or shipped_folder()
        self._notes = Notes(folder, lambda: self._open_parts().database, lambda: self._breaker.shut)
        self._stored: set[str] = set()

    def read_ahead(self, brokerage: str) -> None:
        """Open the database and read the grid of a brokerage, so that its first call need not wait for it.

        Errors are only logged: the first call meets the same error, falls back, and is counted.
        """
        try:
            keepers = self._open_parts().keepers
            if brokerage in keepers:
                keepers[brokerage].view()
        except Exception:
            LOG.exception("the grid could not be read ahead of the first call")

    def chunk(
        self,
        brokerage: str,
        tables: ChunkTables,
        placed: Callable[[Mapping[str, str]], Mapping[str, int]],
        own: OwnTask | None = None,
    ) -> Answer:
        """The decision on a chunk.

        Args:
            brokerage: the one that decides.
            tables: the chunk.
            placed: gives the jobs that JEDI has placed, by unified queue, from the names of queues.
            own: the task whose copies are brought up to date where PanDA's tables are mirrored.

        Raises:
            NoDecisionError: there is no decision in time.
            LeftToPandaError: the switch leaves the task to PanDA.
        """
        now = self._clock()
        task, label = int(tables.tasks.jeditaskid[0]), tables.tasks.texts["prodsourcelabel"][0]

        def decide(database: Database) -> tuple[GridView, Decided]:
            if left := self._switch.read(database).leaves(task, label):
                raise LeftToPandaError(left)
            parts, view = self._usable(brokerage, now)
            queues = view.reading.snapshot.queues
            names = dict(zip(queues.name.tolist(), queues.unified_name.tolist(), strict=True))
            if view.mirrored and own is not None:
                hours = hours_of_ended_jobs(view, brokerage, tables)
                own.copy(database, self._clock, parameters=brokerage != PRODUCTION, done_job_hours=hours)
            with database.read_snapshot() as connection:
                return view, decide_chunk(connection, view, brokerage, parts.rules, tables, placed(names), now)

        view, decided = self._in_time(brokerage, decide)
        if self.settings.record:
            record = DecisionRecord(decided.answer.decision, {}, None, decided.work)
            self._notes.keep(brokerage, now, lambda: self._keep(view, now, [record]))
        return decided.answer

    def left_tasks(self, label: str | None, tasks: Sequence[int]) -> dict[int, str]:
        """The tasks that the switch leaves to PanDA, with the reason of each.

        Raises:
            NoDecisionError: the switch cannot be read in time.
        """

        def read(database: Database) -> dict[int, str]:
            switch = self._switch.read(database)
            left = ((task, switch.leaves(task, label)) for task in tasks)
            return {task: why for task, why in left if why is not None}

        return self._in_time(TASKS, read)

    def tasks(
        self, vo: str, tasks: Sequence[int], seed: int, task_buffer: Any = None
    ) -> list[tuple[AssignedTask, str | None]]:
        """The decision on each of the tasks that JEDI has claimed, with the nucleus that was drawn.

        ``task_buffer``: JEDI's, through which the copies of the tasks are brought up to date in mode ``mirrored``.

        Raises:
            NoDecisionError: there is no decision in time.
        """
        now = self._clock()

        def decide(database: Database) -> tuple[GridView, list[tuple[AssignedTask, str | None]]]:
            parts, view = self._usable(TASKS, now)
            if view.mirrored and task_buffer is not None:
                copy_claimed_tasks(database, task_buffer, self._clock, tasks)
            with database.read_snapshot() as connection:
                return view, decide_tasks(connection, view, parts.rules, vo, tasks, now, seed)

        view, decided = self._in_time(TASKS, decide)
        if self.settings.record:
            records = [DecisionRecord(one.decision, {} if name is None else {name: 1}) for one, name in decided]
            self._notes.keep(TASKS, now, lambda: self._keep(view, now, records))
        return decided

    def count(self, brokerage: str, outcome: str, reason: str) -> None:
        """Count a call, in the database or else in a file; never blocks or fails."""
        self._notes.count(Call(brokerage, outcome, reason), self._clock())

    def close(self) -> None:
        """Close threads and connections."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._notes.close()
        if self._parts is not None:
            self._parts.database.close()

    def _in_time(self, brokerage: str, decide: Callable[[Database], T]) -> T:
        shut = self._breaker.shut
        if shut is not None:
            raise NoDecisionError(shut, f"nothing is asked of the database for {self.settings.retry_s:g} s")
        future = self._pool.submit(self._limited, decide)
        try:
            result = future.result(self.settings.timeout_s)
        except TooLate as error:
            future.cancel()
            raise self._too_late(brokerage) from error
        except ColumnsChanged as error:
            raise NoDecisionError("column_gone", error.what) from error
        except (SchemaTooNew, SchemaOutdated, SchemaMissing, MigrationChanged, OwnSchemaChanged) as error:
            raise NoDecisionError("schema_changed", str(error)) from error
        except (NoDecisionError, LeftToPandaError):
            self._breaker.answered()
            raise
        except ConnectionCut as error:
            raise self._too_late(brokerage) from error
        except DatabaseUnavailable as error:
            self._breaker.unreachable()
            raise NoDecisionError("unreachable", str(error)) from error
        except sa.exc.DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) in CANCELLED:
                raise self._too_late(brokerage) from error
            LOG.exception("the engine failed")
            raise NoDecisionError("error", f"{type(error).__name__}: {error}"[:300]) from error
        except Exception as error:
            LOG.exception("the engine failed")
            raise NoDecisionError("error", f"{type(error).__name__}: {error}"[:300]) from error
        self._breaker.answered()
        return result

    def _limited(self, decide: Callable[[Database], T]) -> T:
        """The decision, with every statement ended by the server once nobody waits for it any more."""
        with self._open_parts().database.within(self.settings.timeout_s) as limited:
            return decide(limited)

    def _too_late(self, brokerage: str) -> NoDecisionError:
        parts = self._parts
        if parts is None or not (brokerage not in parts.keepers or parts.keepers[brokerage].has_view):
            # a grid that is read for the first time says nothing about the database
            return NoDecisionError("starting", f"the grid was not read within {self.settings.timeout_s:g} s")
        self._breaker.timed_out()
        return NoDecisionError("timeout", f"no decision within {self.settings.timeout_s:g} s")

    def _usable(self, brokerage: str, now: datetime) -> tuple[_Parts, GridView]:
        """The parts, and a view that is fresh enough and whose tables match the rules."""
        parts = self._open_parts()
        if brokerage not in parts.keepers:
            missing = f"profile {self.settings.profile} has no brokerage {brokerage}"
            raise NoDecisionError("error", f"{missing}; name a class for {', '.join(parts.keepers)} in modConfig")
        view = parts.keepers[brokerage].view()
        if view.faults:
            raise NoDecisionError("column_gone", ", ".join(map(str, view.faults)))
        age = now - view.as_of
        if age > timedelta(seconds=self.settings.stale_s):
            limit = f"limit {self.settings.stale_s:g} s"
            raise NoDecisionError("stale_snapshot", f"the snapshot is {age.total_seconds():.0f} s old ({limit})")
        unusable = [state.name for state in view.reading.snapshot.unusable(("queues",))]
        if unusable:
            raise NoDecisionError("stale_snapshot", f"source {unusable[0]} cannot be used")
        return parts, view

    def _open_parts(self) -> _Parts:
        with self._making:
            if self._parts is None:
                settings = self.settings
                own = Settings()
                home = Path(platformdirs.user_data_dir("gridbroker", appauthor=False))
                url = settings.url() or own.database_url
                database = open_database(
                    url, home, panda_schema=own.panda_schema, meta_schema=own.meta_schema, application_name=APPLICATION
                )
                refresh, limit = timedelta(seconds=settings.refresh_s), timedelta(seconds=settings.stale_s)
                rules = read_rules(settings.profile, settings.config)
                readers = readers_of(rules, settings.config)
                keepers = {
                    name: GridKeeper(name, database, reader, self._clock, refresh, limit)
                    for name, reader in readers.items()
                }
                self._parts = _Parts(database, keepers, rules)
            return self._parts

    def _keep(self, view: GridView, now: datetime, records: Sequence[DecisionRecord]) -> None:
        snapshot = view.reading.snapshot
        origin = Origin(None, now, snapshot.id, view.published.version, 0, __version__)
        with self._open_parts().database.within(NOTE_S) as limited, limited.begin() as connection:
            decision_writing.save(Database.raw(connection), origin, records)
            # last, as the service does it: two writers of the same parts in different orders would wait for each other
            if snapshot.id not in self._stored and not view.stored:
                stored_snapshots.save(
                    connection, snapshot.id, snapshot.taken_at, __version__, view.reading.parts, view.reading.about
                )
        self._stored.add(snapshot.id)


_SERVICES: dict[int, BrokerService] = {}
#: Brokerages whose grid this process has begun to read.
_AHEAD: set[tuple[int, str]] = set()
_MAKING = threading.Lock()


def service() -> BrokerService:
    """Return the service of this process; a forked process creates its own.

    Raises:
        pydantic.ValidationError: the section of the configuration cannot be used.
    """
    process = os.getpid()
    with _MAKING:
        if process not in _SERVICES:
            _SERVICES[process] = BrokerService(read_settings())
        return _SERVICES[process]


def start(brokerage: str) -> None:
    """Start reading the grid of a brokerage in this process, once; never blocks or fails."""
    key = os.getpid(), brokerage
    if key not in _AHEAD:
        _AHEAD.add(key)
        threading.Thread(target=_start, args=(brokerage,), name="gridbroker-start", daemon=True).start()


def _start(brokerage: str) -> None:
    try:
        broker = service()
    except Exception:
        # a wrong configuration: the first call says so, and PanDA's own class goes on
        LOG.exception("gridbroker cannot be configured")
        return
    broker.read_ahead(brokerage)


def _after_fork() -> None:
    # a lock held by a thread that the child does not have would never be released
    global _MAKING
    _MAKING = threading.Lock()
    _SERVICES.clear()
    _AHEAD.clear()


os.register_at_fork(after_in_child=_after_fork)

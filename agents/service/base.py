"""The base class of agents, and the input and output of one of their cycles."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict

from agents.service.clock import ClockFault
from agents.service.configuration import ProcessSettings
from broker.domain.parts import WHOLE, Part, led_by
from broker.store.connection.database import Database
from broker.store.connection.open_connections import OpenConnections
from broker.store.connection.read_only import ReadOnlyDatabase
from broker.store.service import leases
from broker.store.service.agent_runs import CycleReport as CycleReport
from broker.store.service.leases import IDLE_WITHIN_S, Lease, StaleLeaseError


class AgentOptions(BaseModel):
    """Base of the options of an agent in ``config/agents.yaml``: unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


OptionsT = TypeVar("OptionsT", bound=AgentOptions)


class CycleEndedError(Exception):
    """Base of the reasons to end a cycle early. Committed work stays; the rest waits for the next cycle."""


class BudgetExceededError(CycleEndedError):
    """The cycle has used up its time budget."""


class CycleAbandonedError(CycleEndedError):
    """The service is stopping."""


class CycleWritesNothingError(RuntimeError):
    """A read-only cycle requested a write transaction: the agent did not check ``context.writes``."""


@dataclass(frozen=True)
class CycleRequest:
    """Options of a cycle that is started by hand.

    Attributes:
        task_ids: the only tasks to consider; None: all.
        dry_run: whether to write nothing.
        independent: whether every task meets the same grid; nothing is written.
        emit: called with one object for each decision; None when nobody listens.
        in_full: whether decision objects include their reasons, rather than only the columns of a table.
        by_hand: whether this very cycle was requested by hand; work that is only due from time to time is done now.
        force: whether to let this cycle through, whatever the brake and the clocks say.
    """

    task_ids: tuple[int, ...] | None = None
    dry_run: bool = False
    independent: bool = False
    emit: Callable[[dict[str, Any]], None] | None = None
    in_full: bool = True
    by_hand: bool = False
    force: bool = False

    @property
    def writes(self) -> bool:
        """Whether the cycle may write."""
        return not (self.dry_run or self.independent)


@dataclass(frozen=True)
class DueCount:
    """The number of jobs or rows of one kind that are due to be ended, taken back or removed in a cycle.

    Attributes:
        kind: jobs, or a kind of rows.
        number: how many are due.
        there_are: how many there are in all.
        allowed: how many of them one cycle may end or remove; None: all.
    """

    kind: str
    number: int
    there_are: int
    allowed: int | None

    @property
    def is_held_back(self) -> bool:
        """Whether some have to wait."""
        return self.allowed is not None and self.number > self.allowed


@dataclass(frozen=True)
class CycleContext:
    """The resources and limits of one cycle.

    Agents read from :attr:`database` and write with :meth:`writing`; there is no other way to write. See ADR 31.

    Attributes:
        _database: the work database; only for ``agents.service``, which opens and closes the row of the run.
        now: the instant for which the cycle decides (aware, UTC), by the database's clock unless overridden.
        seed: seed of everything random in the cycle.
        budget_s: seconds the cycle may take.
        request: the options requested by hand.
        lease: the lease under which the cycle writes; None for a read-only cycle.
        run_id: row of the cycle in ``agent_runs``; None for a read-only cycle.
        believes: tells whether the lease may still be trusted.
        ending: set when the service is stopping.
        monotonic: clock for the budget.
        started: start of the cycle by that clock.
        connections: connections of the cycle, through which another thread can end it.
        clock_faults: contradictions between the clocks.
        due: what the cycle finds due to be ended or removed, kind by kind, as its brake notes it.
        when_overdue: called with what is known when the cycle still runs some time after its budget; must not block.
    """

    _database: Database
    now: datetime
    seed: int
    budget_s: float
    request: CycleRequest = CycleRequest()
    lease: Lease | None = None
    run_id: int | None = None
    believes: Callable[[Lease], bool] = lambda lease: True
    ending: threading.Event = field(default_factory=threading.Event)
    monotonic: Callable[[], float] = time.monotonic
    started: float = field(default_factory=time.monotonic)
    connections: OpenConnections = field(default_factory=OpenConnections)
    clock_faults: tuple[ClockFault, ...] = ()
    due: list[DueCount] = field(default_factory=list)
    when_overdue: Callable[[str], None] = lambda details: None

    @property
    def database(self) -> ReadOnlyDatabase:
        """The work database, for reading."""
        return ReadOnlyDatabase(self._database)

    @property
    def writes(self) -> bool:
        """Whether the cycle writes: it has a lease and is not a dry run."""
        return self.lease is not None and self.request.writes

    def writing(self, idle_within_s: float = IDLE_WITHIN_S) -> AbstractContextManager[sa.Connection]:
        """Open a write transaction: refused at its start and before its commit unless the lease is in force.

        Args:
            idle_within_s: seconds that the block may work between two statements.

        Raises:
            CycleWritesNothingError: the cycle may not write.
            StaleLeaseError: the lease is not in force; nothing was written.
        """
        if self.lease is None or not self.request.writes:
            raise CycleWritesNothingError("this cycle has no lease, or is a dry run; it may only read")
        return leases.writing(self._database, self.lease, idle_within_s)

    def transaction(self, idle_within_s: float = IDLE_WITHIN_S) -> AbstractContextManager[sa.Connection]:
        """Open a transaction as :meth:`writing` does where the cycle writes, else a read-only snapshot."""
        return self.writing(idle_within_s) if self.writes else self._database.read_snapshot()

    def limited(self) -> CycleContext:
        """Return this context with transactions that end with the budget, and connections another thread can cut."""
        return replace(self, _database=self._database.limited(self.connections, lambda: self.left_s))

    @property
    def part(self) -> Part:
        """The part of the work that the lease is for; all of it without a lease."""
        return WHOLE if self.lease is None else led_by(self.lease.name)[1]

    @property
    def left_s(self) -> float:
        """Seconds left of the budget; negative once it is used up."""
        return self.budget_s - (self.monotonic() - self.started)

    def check(self) -> None:
        """Check that time is left, the service is not stopping, and the lease can still be trusted.

        Raises:
            BudgetExceededError: the time is used up.
            CycleAbandonedError: the service is stopping.
            StaleLeaseError: the lease can no longer be trusted.
        """
        if self.ending.is_set():
            raise CycleAbandonedError("the service is stopping; what was not written is left to the next cycle")
        if self.lease is not None and not self.believes(self.lease):
            raise StaleLeaseError(self.lease)
        used_s = self.monotonic() - self.started
        if used_s > self.budget_s:
            raise BudgetExceededError(
                f"the cycle has taken {used_s:.1f} s of the {self.budget_s:g} s allowed; raise cycle_budget_s in "
                "config/agents.yaml or lower its work per cycle"
            )


class Agent(ABC, Generic[OptionsT]):
    """Periodic work under a lease named after the agent.

    Attributes:
        name: name of the agent, of its lease, and of its entry in ``config/agents.yaml``.
        title: one-line description for operators.
        options_type: the options that the configuration file may set.
        removes: whether the agent ends, takes back or removes; it then does nothing while the clocks contradict one
            another.
        is_feed: whether the agent reads from other systems. Its cycles that hang or fail are then reported, but are no
            reason to end the service, which would not mend the other system.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    options_type: type[OptionsT]
    removes: ClassVar[bool] = False
    is_feed: ClassVar[bool] = False

    def __init__(self, options: OptionsT, process: ProcessSettings) -> None:
        """Create an agent with its options and the settings of the process."""
        self.options = options
        self.process = process

    def not_divisible(self) -> str:
        """Why the work cannot be divided into parts for several brokers; empty if it can.

        If it can, a cycle handles only what belongs to ``context.part``.
        """
        return "its work is not divided"

    @abstractmethod
    def cycle(self, context: CycleContext) -> CycleReport:
        """Do the work once, and write with ``context.writing()`` where ``context.writes``."""

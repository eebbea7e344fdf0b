"""The tables of a brokerage: all of its I/O, from reading its work to writing its decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

import psycopg
import sqlalchemy as sa

from agents.service.base import AgentOptions, CycleContext
from broker.brokerages.profile import BrokerageProfile
from broker.domain.placements import WriteOutcome
from broker.gdpconfig import Tuning
from broker.gdpconfig.publish import Published
from broker.store.connection.tables import Names, TableCatalogue

WorkT = TypeVar("WorkT")
OptionsT = TypeVar("OptionsT", bound="BrokerageOptions")


class BrokerageOptions(AgentOptions):
    """Options of the agent of a brokerage.

    Attributes:
        pieces_of_a_batch: chunks or tasks written in one transaction.
    """

    @property
    def pieces_of_a_batch(self) -> int:
        """Chunks or tasks written in one transaction; each brokerage names the option in its own words."""
        return 250


@dataclass(frozen=True)
class Skipped:
    """A task that was requested by name and is not brokered.

    Attributes:
        jeditaskid: the task.
        reason: why.
        until: when it will be brokered (aware); None if unknown.
    """

    jeditaskid: int
    reason: str
    until: datetime | None = None


@dataclass(frozen=True)
class Reading:
    """The inputs for reading the work of one VO.

    Attributes:
        connection: connection in the read-only transaction of the cycle.
        catalogue: the existing tables.
        context: context of the cycle.
        entry: the brokerage's entry in the profile: VOs and labels.
        published: the gdpconfig values of the cycle.
        resource_work_queues: work queues of function Resource, whose jobs are counted under the queue, not the share.
    """

    connection: sa.Connection
    catalogue: TableCatalogue
    context: CycleContext
    entry: BrokerageProfile
    published: Published
    resource_work_queues: frozenset[int] = frozenset()

    @property
    def labels(self) -> tuple[tuple[str, ...], bool]:
        """The production source labels of the profile, and whether they are excluded."""
        excluded = not self.entry.labels
        return (self.entry.exclude_labels if excluded else self.entry.labels), excluded

    def brokered(self, vos: Iterable[str]) -> list[str]:
        """The VOs whose tasks are brokered; they are taken one after another, as each has its own tuning."""
        return [vo for vo in vos if "*" in self.entry.vo or vo in self.entry.vo]

    def tuning(self, vo: str) -> Tuning:
        """The gdpconfig values for a VO."""
        return self.published.tuning(vo)


class BrokerageTables(ABC, Generic[WorkT, OptionsT]):
    """The tables of one brokerage.

    Attributes:
        options_type: the options of its agent.
        counts: names of the counts in every cycle report, even if they are 0.
        for_analysis: whether the snapshot needs the sources of the analysis brokerage.
        divided_by: the key by which the work may be divided between brokers; empty: it is not divided. If it is,
            :meth:`load` reads the work of ``reading.context.part``, and placements in one part count in no other.
        each_cycle: whether waiting work is read with the other work, instead of after its waiting time; set by the
            agent before it reads.
    """

    options_type: ClassVar[type[BrokerageOptions]]
    counts: ClassVar[tuple[str, ...]]
    for_analysis: ClassVar[bool] = False
    divided_by: ClassVar[str] = ""
    each_cycle: bool = False

    def __init__(self, options: OptionsT) -> None:
        """Read and write with these options."""
        self.options = options

    @abstractmethod
    def load(self, reading: Reading) -> dict[str, WorkT]:
        """The work of each VO, in the read-only transaction of the cycle."""

    @abstractmethod
    def tasks_of(self, work: WorkT) -> Sequence[int]:
        """The task (jeditaskid) of each piece of work."""

    @abstractmethod
    def skipped(self, reading: Reading, task_ids: Sequence[int]) -> list[Skipped]:
        """Why these tasks, which were requested by name, have nothing to broker."""

    @abstractmethod
    def write(self, connection: psycopg.Connection[Any], names: Names, now: datetime, rows: Any) -> WriteOutcome:
        """Write the rows of a batch whose decisions still match the database, in the caller's transaction."""

    def writes_rows(self, makes_jobs: bool) -> bool:
        """Whether decisions become rows, or are only recorded. ``makes_jobs``: False alongside JEDI."""
        return True

    def wake(self, connection: psycopg.Connection[Any], names: Names, now: datetime) -> Mapping[str, int]:
        """Reactivate tasks that have waited long enough, in a fenced transaction; return the counts."""
        return {}

    def warnings(self, work: WorkT) -> Sequence[str]:
        """What an operator should know about the work that was read."""
        return ()

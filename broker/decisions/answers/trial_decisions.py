"""Deciding without writing: one dry cycle about some tasks, with the decisions as they would be stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agents.brokerage.agent import BrokerageAgent, Sink
from agents.brokerage.batch_writing import records_of
from agents.service import configuration, process, registry
from agents.service.base import CycleContext, CycleReport, CycleRequest
from agents.service.sections import section_of
from broker.brokerages.base import Cycle, StageTimes
from broker.codec.work_codec import unpacked
from broker.decisions.answers.remedies import Case
from broker.domain.decision_records import StoredDecision
from broker.errors import NOT_FOUND, BrokerError
from broker.gdpconfig import Tuning
from broker.store.connection.database import Database

BUDGET_S = 30.0


class NoSuchBrokerage(BrokerError):
    """There is no brokerage of a name."""

    exit_status = NOT_FOUND


@dataclass(frozen=True)
class Asked:
    """What is to be decided.

    Attributes:
        brokerage: by name.
        tasks: only these; None: all that are due.
        now: the instant for which it decides (aware).
        seed: of everything random.
        independent: every task meets the same grid.
        config: folder with configuration files of the operator's own.
    """

    brokerage: str
    tasks: tuple[int, ...] | None
    now: datetime
    seed: int
    independent: bool = False
    config: Path | None = None


@dataclass(frozen=True)
class Tried:
    """A decision that was not written, with what is needed to evaluate it again."""

    stored: StoredDecision
    case: Case


def decide(database: Database, asked: Asked, emit: Callable[[dict[str, Any]], None]) -> CycleReport:
    """Decide, and write nothing; ``emit`` gets the object of each decision.

    Raises:
        NoSuchBrokerage: there is none of the name.
        BrokerError: the cycle could not be made.
    """
    return _agent(asked).cycle(_context(database, asked, emit))


def try_decisions(database: Database, asked: Asked) -> list[Tried]:
    """Decide, and write nothing: the decisions as they would be stored.

    Raises:
        NoSuchBrokerage: there is none of the name.
        BrokerError: the cycle could not be made.
    """
    agent = _Trial(_agent(asked))
    agent.cycle(_context(database, asked, None))
    return agent.found


def _agent(asked: Asked) -> BrokerageAgent:
    if asked.brokerage not in registry.BROKERAGES:
        known = ", ".join(registry.BROKERAGES)
        raise NoSuchBrokerage(f"there is no brokerage {asked.brokerage[:80]}", "brokerage", f"known are {known}")
    folder = asked.config
    agents = configuration.load(configuration.config_file("agents.yaml", folder), registry.NAMES)
    section = section_of(agents, asked.brokerage)
    settings = process.load_process(configuration.config_file("broker.yaml", folder), folder)
    made = registry.make(asked.brokerage, {} if section is None else section.options, settings)
    if not isinstance(made, BrokerageAgent):
        raise TypeError(f"the agent {asked.brokerage} is no brokerage")
    return made


def _context(database: Database, asked: Asked, emit: Callable[[dict[str, Any]], None] | None) -> CycleContext:
    request = CycleRequest(asked.tasks, dry_run=True, independent=asked.independent, emit=emit, by_hand=True)
    return CycleContext(database, asked.now, asked.seed, BUDGET_S, request)


class _Trial(BrokerageAgent):
    """A brokerage that keeps its decisions in memory."""

    def __init__(self, agent: BrokerageAgent) -> None:
        self.__dict__.update(agent.__dict__)
        self.found: list[Tried] = []
        self._tunings: dict[int, Tuning] = {}

    def _cycle_over(self, grid: Any, work: Any, context: CycleContext, tuning: Tuning) -> Cycle[Any]:
        cycle = super()._cycle_over(grid, work, context, tuning)
        self._tunings[id(cycle)] = tuning
        return cycle

    def _assign(self, cycle: Cycle[Any], sink: Sink) -> None:
        assigned: Sequence[Any] = list(cycle.assign(sink.origin.seed, StageTimes()))
        records = records_of(self.brokerage, cycle, assigned, None, sink.origin.decided_at, self._tables.each_cycle)
        for one, record in zip(assigned, records, strict=True):
            work = cycle.encode(one)
            kept = dataclasses.replace(record, work=work)
            batch = self.brokerage.batch(unpacked(work), older=False)
            tuning = self._tunings[id(cycle)] if id(cycle) in self._tunings else next(iter(self._tunings.values()))
            case = Case(self.brokerage, sink.grid.snapshot, tuning, batch, self._rules, record.decision)
            self.found.append(Tried(StoredDecision(0, sink.origin, kept), case))

"""What the timeouts judge by: the queues with their exceptions, and the limits in force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from broker.errors import Refused
from broker.gdpconfig import Tuning
from broker.lifecycle.model.jobs import UNREADABLE
from broker.lifecycle.model.limits import timeout_limits
from broker.lifecycle.statements.queues import queues_of
from broker.lifecycle.statements.scan import TimeoutContext
from broker.snapshot.raw import RawSource, SourceState
from broker.snapshot.source import SourceLimit, assess
from broker.snapshot.source_list import limits_of
from broker.snapshot.sources.pilots import PILOTS
from broker.snapshot.sources.queues import QUEUES
from broker.store.connection.tables import TableCatalogue
from broker.store.snapshots.source_reads import SourceReader
from broker.yaml_text import read_yaml

SOURCES = (QUEUES, PILOTS)


@dataclass(frozen=True)
class TimeoutInputs:
    """What jobs are judged by, and the states of its sources.

    Attributes:
        timeout_context: queues, limits and the instant.
        states: the states of the sources.
    """

    timeout_context: TimeoutContext
    states: Sequence[SourceState]

    @property
    def queues(self) -> SourceState:
        """The state of the source that says which queues are exempt."""
        return next(state for state in self.states if state.name == "queues")

    @property
    def notes(self) -> list[str]:
        """Remarks on sources and queues that are not as they should be."""
        return self.notes_on([source.name for source in SOURCES])

    def notes_on(self, sources: Sequence[str]) -> list[str]:
        """Like :attr:`notes`, but only for some sources."""
        notes = [
            f"source {state.name} is {state.state}"
            + ("" if state.age_s is None else f", {state.age_s:.0f} s old (limit {state.limit_s or 0:.0f} s)")
            for state in self.states
            if state.state != "ok" and state.name in sources
        ]
        queues = self.timeout_context.queues.values()
        unreadable = sorted(queue.name for queue in queues if UNREADABLE in queue.exceptions)
        if unreadable:
            listed = f"{len(unreadable)}, first {unreadable[0]}"
            notes.append(f"queues that cannot be read, where no timeout acts: {listed}")
        return notes


class TimeoutInputReader:
    """Reads queues cycle after cycle and remembers the last good reading of each source."""

    def __init__(self, limits: Path) -> None:
        """``limits`` is the file ``sources.yaml``."""
        self._limits: dict[str, SourceLimit] = limits_of(read_yaml(limits.read_text(encoding="utf-8")))
        self._last_good: dict[str, RawSource] = {}

    def read(
        self, connection: sa.Connection, catalogue: TableCatalogue, tuning: Tuning, now: datetime
    ) -> TimeoutInputs:
        """Queues and limits at ``now``, in the caller's read-only transaction.

        A pilot source that cannot be used makes no queue inactive: its silence would make all of them inactive.
        """
        states, used = [], {}
        reader = SourceReader(connection, catalogue, now)
        for declared in SOURCES:
            name, source = declared.name, reader.read(declared)
            used[name], state = assess(source, now, self._limits[name], self._last_good.get(name))
            states.append(state)
            if state.usable:
                self._last_good[name] = used[name]
        queues = queues_of(used["queues"], used["pilots"] if states[1].usable else None)
        limits = timeout_limits(tuning, {queue.workflow for queue in queues.values() if queue.workflow})
        return TimeoutInputs(TimeoutContext.at(now, queues, limits), states)


def refuse_without_queues(inputs: TimeoutInputs) -> None:
    """Refuse to go on unless it is known which queues are exempt.

    Raises:
        Refused: the source cannot be used.
    """
    state = inputs.queues
    if not state.usable:
        raise Refused(
            f"the source queues is {state.state}",
            "schedconfig_json",
            "no job was touched, as paused queues cannot be told; see what fills the table, and config/sources.yaml",
        )

"""Stored cycles with all that their replay needs: rules from the configuration, snapshot, and tuning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from broker import __version__
from broker.brokerages.base import Rules
from broker.decisions.answers.replay import Replayed, replay
from broker.decisions.answers.rules_in_force import rules_in_force
from broker.errors import BrokerError, NotFound, Refused
from broker.gdpconfig.catalogue import shipped_catalogue
from broker.store.decisions.stored_cycles import StoredCycle, cycles_of
from broker.store.decisions.stored_cycles import whole as cycles_are_whole
from broker.store.scenarios.scenario_file import read_document
from broker.store.snapshots.snapshot_file import from_document
from broker.store.snapshots.snapshot_loading import kept_snapshot, stored_snapshot
from broker.store.snapshots.stored_snapshots import header
from broker.tuning.statements.gdpconfig_rows import TuningStore


@dataclass
class Replayer:
    """Decides stored cycles again, and compares.

    Attributes:
        connection: to the database that holds them.
        store: its versions of the tuning.
        warn: takes what an operator should know about the stored cycles.
        config: folder with configuration files of the operator's own.
    """

    connection: sa.Connection
    store: TuningStore
    warn: Callable[[str], None]
    config: Path | None = None
    _rules: dict[str, Rules] = field(default_factory=dict)
    _message: set[str] = field(default_factory=set)

    def replay(self, cycle: StoredCycle, *, whole: bool = True) -> list[Replayed]:
        """Each decision of the cycle against the one made again; what cannot be decided again says why.

        Args:
            cycle: the decisions.
            whole: they are all of the cycle, so that what they place must add up, too.
        """
        origin = cycle.origin
        if cycle.brokerage not in self._rules:
            self._rules[cycle.brokerage] = rules_in_force(cycle.brokerage, self.config)
        try:
            if origin.snapshot is None:
                raise BrokerError("it was stored without a snapshot", "broker.decisions")
            snapshot = stored_snapshot(self.connection, origin.snapshot)
            self._report_columns(origin.snapshot)
            tuning_of = self.store.version(self.connection, origin.tuning).tuning
        except BrokerError as error:
            return [Replayed(one, fault=str(error)) for one in cycle.decisions]
        return replay(cycle.decisions, snapshot, tuning_of, self._rules[cycle.brokerage], whole=whole)

    def _report_columns(self, identifier: str) -> None:
        """Say once of each other version which columns of its snapshots count as NULL."""
        engine = header(self.connection, identifier).engine
        if engine == __version__ or engine in self._message:
            return
        self._message.add(engine)
        missing = kept_snapshot(self.connection, identifier).columns_not_stored()
        if missing:
            self.warn(f"columns that snapshots of version {engine} do not have count as NULL: {', '.join(missing)}")


HOW = "write one with: broker snapshot export --decisions FILE"


class NotASnapshotFile(Refused):
    """A file that holds no snapshot."""


class NothingDecidedInFile(NotFound):
    """A snapshot file without decisions."""


def replayed_file(path: Path, config: Path | None = None, *, whole: bool = True) -> Iterator[list[Replayed]]:
    """The decisions of a snapshot file against those made again, cycle by cycle.

    Args:
        path: of the file.
        config: folder with configuration files of the operator's own.
        whole: what a cycle places must add up; without it each decision is made by itself.

    Raises:
        BadScenario: the file cannot be read.
        BadSnapshotFile: it is no snapshot file, or damaged.
        NothingDecidedInFile: it holds no decisions.
    """
    document = read_document(path)
    if not isinstance(document, dict):
        raise NotASnapshotFile("it is no snapshot", str(path), HOW)
    file = from_document(document, shipped_catalogue(), str(path))
    if not file.decisions:
        raise NothingDecidedInFile("it holds no decisions", str(path), HOW)
    snapshot = file.snapshot.build()
    cycles = cycles_of(file.decisions)
    for cycle, is_whole in zip(cycles, cycles_are_whole(cycles), strict=True):
        tuning = (file.tunings or {}).get(cycle.origin.tuning)
        if tuning is None:
            fault = f"the file has no version {cycle.origin.tuning} of the tuning"
            yield [Replayed(one, fault=fault) for one in cycle.decisions]
        else:
            rules = rules_in_force(cycle.brokerage, config)
            yield replay(cycle.decisions, snapshot, tuning.tuning, rules, whole=whole and is_whole)

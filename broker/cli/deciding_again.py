"""Stored cycles with all that is needed to decide them again: rules from the configuration, snapshot, and tuning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from agents import registry
from agents.analysis_job import AnalysisJobOptions
from agents.configuration import config_file, load
from agents.process import load_process
from broker import __version__
from broker.brokerages import analysis_job, production_job
from broker.brokerages.profile import ProfileError, build_chain, read_profile, switched
from broker.brokerages.redecide import Rules
from broker.cli.output import remark
from broker.cli.rules import UnusableProfile
from broker.engine.chain import RuleList
from broker.errors import BrokerError, Refused
from broker.gdpconfig.shipped import shipped_catalogue
from broker.rules.registry import RuleError
from broker.store.gdpconfig_rows import TuningStore
from broker.store.replay import Replayed, replay
from broker.store.scenario_file import read_document
from broker.store.snapshot_file import from_document
from broker.store.snapshot_loading import kept_snapshot, stored_snapshot
from broker.store.snapshots import header
from broker.store.stored_cycles import StoredCycle, cycles_of
from broker.store.stored_cycles import whole as cycles_are_whole


def rules_in_force(brokerage: str, folder: Path | None = None, switches: Mapping[str, bool] | None = None) -> Rules:
    """The rules of a brokerage by the configuration, with some of them switched on or off.

    Args:
        brokerage: its name.
        folder: with configuration files of the operator's own; the shipped ones without it.
        switches: by name of the rule.

    Raises:
        UnusableProfile: there is no such brokerage or rule, or the profile is wrong.
    """
    name = load_process(config_file("broker.yaml", folder), folder).profile
    file = config_file(f"profiles/{name}.yaml", folder)
    try:
        profile = switched(read_profile(file.read_text(encoding="utf-8")), switches or {})
        chain = build_chain(profile.of(brokerage), RuleList)
        return Rules(chain, build_chain(profile.of(production_job.NAME)), _quota_closed(folder))
    except (OSError, ProfileError, RuleError) as error:
        raise UnusableProfile(str(error), str(file), "mend the profile, or name what it has") from error


def _quota_closed(folder: Path | None) -> bool:
    agents = load(config_file("agents.yaml", folder), registry.NAMES).agents
    options = agents[analysis_job.NAME].options if analysis_job.NAME in agents else {}
    return AnalysisJobOptions.model_validate(options).quota_unknown == "closed"


@dataclass
class Replayer:
    """Decides stored cycles again, and compares.

    Attributes:
        connection: to the database that holds them.
        store: its versions of the tuning.
        config: folder with configuration files of the operator's own.
    """

    connection: sa.Connection
    store: TuningStore
    config: Path | None = None
    _rules: dict[str, Rules] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

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
            self._tell_columns(origin.snapshot)
            tuning_of = self.store.version(self.connection, origin.tuning).tuning
        except BrokerError as error:
            return [Replayed(one, fault=str(error)) for one in cycle.decisions]
        return replay(cycle.decisions, snapshot, tuning_of, self._rules[cycle.brokerage], whole=whole)

    def _tell_columns(self, identifier: str) -> None:
        """Say once of each other version which columns of its snapshots count as NULL."""
        engine = header(self.connection, identifier).engine
        if engine == __version__ or engine in self._told:
            return
        self._told.add(engine)
        missing = kept_snapshot(self.connection, identifier).columns_not_stored()
        if missing:
            remark(f"columns that snapshots of version {engine} do not have count as NULL: {', '.join(missing)}")


HOW = "write one with: broker snapshot export --decisions FILE"


class NothingDecidedInFile(Refused):
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
        raise NothingDecidedInFile("it is no snapshot", str(path), HOW)
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

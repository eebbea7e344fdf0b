"""Whether an installation is ready for its first job, now or at the time of a decision."""

from __future__ import annotations

from agents.brokerage.grid_reading import GridReader
from agents.service.configuration import config_file, load_process, profile_in_force
from broker.brokerages.profile import ProfileError, build_chain
from broker.domain.classification import DEFAULT_SHARE
from broker.domain.ready_check import Check
from broker.engine.shared.chain import RuleChain
from broker.grid.answers.grid import snapshot_of, tuning_in_force
from broker.grid.model.readiness import Surroundings, checks, missing
from broker.grid.statements import share_rows
from broker.snapshot.snapshot import Snapshot
from broker.store.query_context import QueryContext
from broker.store.snapshots.stored_snapshots import SnapshotLostError

PILOT_RULES = frozenset({"pilots", "task_pilots"})
"""Rules of job brokerages that give no jobs to queues without pilots."""


def readiness(query: QueryContext) -> tuple[Check, ...]:
    """The whole check list for the grid as it is now."""
    reader = GridReader("live", config_file("sources.yaml", query.config))
    snapshot = reader.read(query.connection, query.catalogue, query.now, lambda: None).snapshot
    return _checks(query, snapshot)


def missing_for(query: QueryContext, snapshot: str | None) -> tuple[Check, ...]:
    """What kept everything from being brokered in the cycle of a snapshot; empty if the snapshot is no longer kept."""
    try:
        stored = None if snapshot is None else snapshot_of(query.connection, snapshot)
    except SnapshotLostError:
        stored = None
    return () if stored is None else missing(_checks(query, stored))


def _checks(query: QueryContext, snapshot: Snapshot) -> tuple[Check, ...]:
    tuning = tuning_in_force(query)
    shares = share_rows.read_shares(query.connection, query.names)
    around = Surroundings(
        vo=query.names.vo,
        shares=tuple(shares),
        waiting_cap=float(tuning.by_suffix("NQUEUELIMITSITE", [DEFAULT_SHARE]).item()),
        disk_threshold_tb=float(tuning.by_suffix("DISK_THRESHOLD", [DEFAULT_SHARE]).item()),
        pilots_needed=_pilots_needed(query),
    )
    return checks(snapshot, around)


def _pilots_needed(query: QueryContext) -> bool:
    """Whether the profile in force has a rule that gives no jobs to queues without pilots."""
    profile = profile_in_force(load_process(config_file("broker.yaml", query.config), query.config))
    try:
        chain = build_chain(profile.of("production_job"), RuleChain)
    except ProfileError:
        return False
    return any(rule.name in PILOT_RULES for rule in chain)

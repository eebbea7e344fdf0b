"""Roll the work of a site out ahead by its own rules, in a process with low priority that ends by itself."""

from __future__ import annotations

import multiprocessing
import os
import resource
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import process_time

from agents.service.base import CycleContext
from broker.brokerages.profile import Profile
from broker.errors import BrokerError
from broker.gdpconfig.catalogue import Value
from broker.simulation.model.real.brokered import Brokered
from broker.simulation.model.rolling_out import RolledOut, RollOutSettings, roll_out
from broker.simulation.model.work_of_site import WorkRows, work_of_site
from broker.simulation.statements.work_ahead_rows import work_rows
from broker.snapshot.raw import RawSource, SnapshotCorruptError
from broker.snapshot.sources.global_share_targets import SHARE_TARGETS, GlobalShareTargets
from broker.store.connection.tables import TableCatalogue
from broker.store.snapshots.snapshot_overview import newest_id
from broker.store.snapshots.source_reads import SourceReader, read_sources
from broker.store.snapshots.stored_snapshots import EncodedSnapshot, encoded_snapshot

#: An older snapshot says nothing about the grid as it is now.
OLDEST = timedelta(hours=1)
#: CPU seconds that the process may use on top of the budget, to start and to build the grid.
_STARTS_S = 120.0


@dataclass(frozen=True)
class RollOutInput:
    """The input of a roll-out, which is sent to the other process.

    Attributes:
        snapshot: the newest stored snapshot; ``targets`` of the shares, which not every brokerage stores.
        profile: in force; ``values`` are the keys that are set.
    """

    rows: WorkRows
    snapshot: EncodedSnapshot
    targets: RawSource
    profile: Profile
    values: Mapping[str, Value]
    how: RollOutSettings


@dataclass(frozen=True)
class Outcome:
    """The result of a roll-out, or why there is none."""

    rollout: RolledOut | None = None
    why_not: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


def read_ahead(
    context: CycleContext, window: timedelta, profile: Profile, values: Mapping[str, Value], how: RollOutSettings
) -> RollOutInput | str:
    """The input of a roll-out, read in one transaction, or why there can be none."""
    with context.database.read_snapshot() as connection:
        name = newest_id(connection)
        if name is None:
            return "no snapshot is stored"
        try:
            snapshot = encoded_snapshot(connection, name)
        except BrokerError as error:
            return str(error)
        if context.now - snapshot.taken_at > OLDEST:
            return f"the newest snapshot is of {snapshot.taken_at:%Y-%m-%d %H:%M} UTC"
        catalogue = TableCatalogue.read(connection, context.database.names)
        rows = work_rows(connection, catalogue, context.now, window)
        sources, _ = read_sources(SourceReader(connection, catalogue, context.now), (GlobalShareTargets(),))
    return RollOutInput(rows, snapshot, sources[SHARE_TARGETS], profile, values, how)


def rolled_out(ahead: RollOutInput, spent_s: Callable[[], float]) -> RolledOut:
    """Roll the work out.

    Raises:
        BrokerError: the grid cannot be simulated, or not with this profile.
        SnapshotCorruptError: the snapshot is not as it was stored.
    """
    sources = {**ahead.snapshot.sources(), SHARE_TARGETS: ahead.targets}
    work = work_of_site(ahead.rows, ahead.snapshot.build(), sources)
    factory = partial(Brokered, values=ahead.values, profile=ahead.profile)
    return roll_out(work, factory, ahead.how, spent_s)


def outcome_of(ahead: RollOutInput | str, left_s: float, executor: Executor | None = None) -> Outcome:
    """Roll out in another process and wait for it; failures are reported in the outcome, not raised.

    Args:
        ahead: what is rolled out, or why nothing is.
        left_s: the longest wait, in seconds.
        executor: that runs it; None for a process of its own.
    """
    if isinstance(ahead, str):
        return Outcome(None, ahead)
    pool = own_process(ahead.how.budget_s) if executor is None else executor
    try:
        result = pool.submit(_in_process, ahead).result(max(1.0, left_s))
    except TimeoutError:
        return Outcome(None, f"it took longer than {left_s:.0f} s")
    except BrokenProcessPool:
        return Outcome(None, "its process ended before it was done: out of CPU time or memory")
    except (BrokerError, SnapshotCorruptError) as error:
        return Outcome(None, str(error))
    finally:
        if executor is None:
            pool.shutdown(wait=False, cancel_futures=True)
    if not result.seeds:
        return Outcome(None, "the budget did not last for any")
    return Outcome(result, "", {"rollouts": result.seeds, "rolled_out_min": round(60.0 * result.hours)})


def own_process(budget_s: float) -> Executor:
    """A process that ends by itself some time after the budget."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, initializer=_limited, initargs=(budget_s + _STARTS_S,))


def _limited(cpu_s: float) -> None:
    """Let this process yield to those that decide, and end after ``cpu_s`` CPU seconds at the latest."""
    os.nice(10)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = round(cpu_s) if hard == resource.RLIM_INFINITY else min(round(cpu_s), hard)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))


def _in_process(ahead: RollOutInput) -> RolledOut:
    began_s = process_time()
    return rolled_out(ahead, lambda: process_time() - began_s)

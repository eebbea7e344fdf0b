"""One stored cycle measured against the best placement of its jobs, in another process: what it needs comes with it."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from broker import __version__
from broker.brokerages.base import Rules
from broker.brokerages.job.brokerage import JobBrokerage, StoredChunks
from broker.brokerages.profile import rules_of
from broker.brokerages.registry import brokerage, decode_batches
from broker.codec.work_codec import WorkCorruptError
from broker.domain.decisions import StoredOutcome
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.chain import QueueChain
from broker.flow.model.quality import Measured, Placed, Unmeasured, Yardstick, measure
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import SnapshotCorruptError, decode
from broker.snapshot.snapshot import Snapshot
from broker.whatif.model.cases import Case, ProfileRules, SnapshotParts

#: Decisions that count: those about work that only queues keep from being placed.
COUNTED = ("brokered", "pending")


@dataclass(frozen=True)
class MeasuredVo:
    """The chunks of one VO of a cycle: what they cost, or why that is not known, and the seconds that it took."""

    vo: str
    found: Measured | Unmeasured
    seconds: float


class CannotMeasure(Exception):
    """A stored cycle that cannot be measured; the others can."""


def lower_priority() -> None:
    """Let this process give way to those that decide."""
    os.nice(10)


def measure_case(case: Case, rules: ProfileRules, yardstick: Yardstick) -> list[MeasuredVo]:
    """Measure a stored cycle, VO by VO.

    Args:
        case: the cycle.
        rules: by which it decided.
        yardstick: by which it is measured.

    Raises:
        CannotMeasure: it is damaged, or another release stored it without what is needed.
    """
    asked = brokerage(case.brokerage)
    if not isinstance(asked, JobBrokerage):
        raise CannotMeasure(f"{case.brokerage} places no jobs")
    try:
        snapshot = _built(case.snapshot)
        works = [one.work for one in case.decisions]
        batches = decode_batches(asked, works, older=case.engine != __version__)
        own = rules_of(rules.profile, case.brokerage, dict(rules.options.get(case.brokerage, {})))
        found, first = [], 0
        for batch in batches:
            stop = first + len(batch.jeditaskid)
            found.append(_measured(asked, snapshot, case, batch, case.decisions[first:stop], own, yardstick))
            first = stop
    except (SnapshotCorruptError, WorkCorruptError) as error:
        raise CannotMeasure(str(error)) from error
    return found


def _built(packed: SnapshotParts) -> Snapshot:
    sources = {name: decode(*part) for name, part in packed.parts.items()}
    return build_snapshot(packed.id, packed.taken_at, sources, packed.states)


def _measured(
    asked: JobBrokerage,
    snapshot: Snapshot,
    case: Case,
    batch: Any,
    decisions: tuple[StoredOutcome, ...],
    rules: Rules,
    yardstick: Yardstick,
) -> MeasuredVo:
    if not isinstance(batch, StoredChunks) or batch.work is None or not isinstance(rules.chain, QueueChain):
        raise CannotMeasure("it was not stored how its chunks are cut")
    started, work, chain = perf_counter(), batch.work, rules.chain
    tuning = case.published.tuning(batch.vo)

    def cycle(without: str = "") -> JobCycle:
        kept = tuple(one for one in chain.filters if one.name != without)
        own = dataclasses.replace(rules, chain=dataclasses.replace(chain, filters=kept))
        return asked.engine_cycle(snapshot, work.work, tuning, own)

    placed: list[Placed] = [dict(one.assigned) if one.outcome in COUNTED else None for one in decisions]
    found = measure(cycle(), work, placed, yardstick, cycle, perf_counter)
    return MeasuredVo(batch.vo or "", found, perf_counter() - started)

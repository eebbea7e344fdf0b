"""Measure a stored cycle against the best placement of its jobs, in another process that is sent all it needs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from broker import __version__
from broker.brokerages.base import Rules
from broker.brokerages.job.brokerage import JobBrokerage, StoredChunks
from broker.brokerages.profile import rules_of
from broker.brokerages.registry import brokerage, decode_batches
from broker.codec.work_codec import WorkCorruptError
from broker.domain.decisions import StoredOutcome
from broker.engine.job.cycle import JobCycle
from broker.engine.shared.chain import QueueChain
from broker.flow.model.beside import PlacementComparison, beside
from broker.flow.model.placed import Placed
from broker.flow.model.quality import Measured, Unmeasured, Yardstick, measure
from broker.snapshot.build import build_snapshot
from broker.snapshot.raw import SnapshotCorruptError, decode
from broker.snapshot.snapshot import Snapshot
from broker.whatif.model.cases import Case, ProfileRules, SnapshotParts
from broker.work.assemble import CycleWork

#: jeditaskid, datasetid of the master, ramcount in MB.
Chunk = tuple[int, int | None, float]


class Remade(Protocol):
    """Runs the cycle again."""

    def __call__(self, without: str = "") -> JobCycle:
        """The cycle, without the filter that ``without`` names."""


#: Outcomes of decisions that count: those about work that only queues can keep from being placed.
COUNTED = ("brokered", "pending")


@dataclass(frozen=True)
class MeasuredVo:
    """The chunks of one VO of a cycle: what they cost, or why that is unknown, and the seconds that measuring took."""

    vo: str
    result: Measured | Unmeasured
    seconds: float


@dataclass(frozen=True)
class PricedVo:
    """PanDA's placement of the chunks of one VO of a cycle next to ours, and the seconds that pricing took."""

    vo: str
    comparison: PlacementComparison
    seconds: float


class CannotMeasure(Exception):
    """A stored cycle that cannot be measured; the others can."""


def lower_priority() -> None:
    """Let this process yield to those that decide."""
    os.nice(10)


def measure_case(case: Case, rules: ProfileRules, yardstick: Yardstick) -> list[MeasuredVo]:
    """Measure a stored cycle, VO by VO.

    Args:
        case: the cycle.
        rules: by which the cycle decided.
        yardstick: by which it is measured.

    Raises:
        CannotMeasure: the cycle is damaged, or another release stored it without what is needed.
    """
    job_brokerage = brokerage(case.brokerage)
    if not isinstance(job_brokerage, JobBrokerage):
        raise CannotMeasure(f"{case.brokerage} places no jobs")
    own = rules_of(rules.profile, case.brokerage, dict(rules.options.get(case.brokerage, {})))
    try:
        snapshot = _built(case.snapshot)
        return [
            _measured(job_brokerage, snapshot, case, batch, decisions, own, yardstick)
            for batch, decisions in _batches(job_brokerage, case)
        ]
    except (SnapshotCorruptError, WorkCorruptError) as error:
        raise CannotMeasure(str(error)) from error


def price_case(case: Case, rules: ProfileRules, yardstick: Yardstick, panda: Mapping[Chunk, Placed]) -> list[PricedVo]:
    """Price PanDA's placement of a stored cycle's chunks next to ours, measured in the same way, VO by VO.

    Args:
        case: the cycle.
        rules: by which the cycle decided.
        yardstick: by which both are measured.
        panda: jobs by queue of each chunk: task, dataset, memory in MB (0 for none).

    Raises:
        CannotMeasure: the cycle is damaged, or another release stored it without what is needed.
    """
    job_brokerage = brokerage(case.brokerage)
    if not isinstance(job_brokerage, JobBrokerage):
        raise CannotMeasure(f"{case.brokerage} places no jobs")
    own = rules_of(rules.profile, case.brokerage, dict(rules.options.get(case.brokerage, {})))
    try:
        snapshot = _built(case.snapshot)
        results = []
        for batch, decisions in _batches(job_brokerage, case):
            started = perf_counter()
            cycle, work = _cycle(job_brokerage, snapshot, case, batch, own), _work(batch)
            theirs = [panda.get(one) for one in _keys(work)]
            priced = beside(cycle(), work, _placed(decisions), theirs, yardstick.prices)
            results.append(PricedVo(batch.vo or "", priced, perf_counter() - started))
    except (SnapshotCorruptError, WorkCorruptError) as error:
        raise CannotMeasure(str(error)) from error
    return results


def _keys(work: CycleWork) -> list[Chunk]:
    chunks = work.work.chunks
    memory = np.nan_to_num(chunks.ramcount).tolist()
    return list(zip(chunks.jeditaskid.tolist(), chunks.datasetid.tolist(), memory, strict=True))


def _batches(job_brokerage: JobBrokerage, case: Case) -> Iterator[tuple[Any, tuple[StoredOutcome, ...]]]:
    """The chunks of each VO with the decisions about them."""
    first = 0
    for batch in decode_batches(job_brokerage, [one.work for one in case.decisions], older=case.engine != __version__):
        stop = first + len(batch.jeditaskid)
        yield batch, case.decisions[first:stop]
        first = stop


def _built(packed: SnapshotParts) -> Snapshot:
    sources = {name: decode(*part) for name, part in packed.parts.items()}
    return build_snapshot(packed.id, packed.taken_at, sources, packed.states)


def _measured(
    job_brokerage: JobBrokerage,
    snapshot: Snapshot,
    case: Case,
    batch: Any,
    decisions: tuple[StoredOutcome, ...],
    rules: Rules,
    yardstick: Yardstick,
) -> MeasuredVo:
    started, cycle = perf_counter(), _cycle(job_brokerage, snapshot, case, batch, rules)
    result = measure(cycle(), _work(batch), _placed(decisions), yardstick, cycle, perf_counter)
    return MeasuredVo(batch.vo or "", result, perf_counter() - started)


def _placed(decisions: Sequence[StoredOutcome]) -> list[Placed]:
    return [dict(one.assigned) if one.outcome in COUNTED else None for one in decisions]


def _work(batch: Any) -> CycleWork:
    if not isinstance(batch, StoredChunks) or batch.work is None:
        raise CannotMeasure("it was not stored how its chunks are cut")
    return batch.work


def _cycle(job_brokerage: JobBrokerage, snapshot: Snapshot, case: Case, batch: Any, rules: Rules) -> Remade:
    """What runs the cycle again, with every chunk meeting the grid of the snapshot."""
    work, chain, tuning = _work(batch), rules.chain, case.published.tuning(batch.vo)
    if not isinstance(chain, QueueChain):
        raise CannotMeasure(f"{case.brokerage} places no jobs")

    def cycle(without: str = "") -> JobCycle:
        filters = tuple(one for one in chain.filters if one.name != without)
        own = dataclasses.replace(rules, chain=dataclasses.replace(chain, filters=filters))
        return job_brokerage.engine_cycle(snapshot, work.work, tuning, own, independent=True)

    return cycle

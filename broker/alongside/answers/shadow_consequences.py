"""The consequences of where jobs go: bytes over the network, waiting, failures and core hours, on both sides. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from broker.alongside.answers.shadow_models import Consequence, Placed
from broker.alongside.answers.shadow_own import TASK_BROKERAGE
from broker.alongside.answers.shadow_tally import Agreement, Tally
from broker.alongside.statements.panda_placements import InputBytes
from broker.alongside.statements.queue_records import QueueRecord
from broker.domain.rejection_counts import unified_of

Jobs = Mapping[str, float]


@dataclass(frozen=True)
class Data:
    """The input of jobs, by task and master dataset.

    Attributes:
        known: bytes of one job by dataset, for each task and master dataset.
        near: for each dataset in the catalogue, the part that is next to a queue, by queue; 0 for other queues.
    """

    known: Mapping[tuple[int, int], Mapping[str, float]]
    near: Mapping[str, Mapping[str, float]]

    def wan_bytes(self, task: int, dataset: int | None, queue: str) -> float | None:
        """Bytes of one job that are not on disk next to a queue; None if that is unknown."""
        parts = None if dataset is None else self.known.get((task, dataset))
        if parts is None or any(size and name not in self.near for name, size in parts.items()):
            return None
        return sum(size * (1 - self.near[name].get(queue, 0.0)) for name, size in parts.items() if size)


def data_of(read: Sequence[InputBytes], near: Mapping[str, Mapping[str, float]]) -> Data:
    """Build the input of jobs from what was read of the files and the replica catalogue."""
    known: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    for row in read:
        if row.jobs:
            known[row.jeditaskid, row.datasetid][row.dataset] = row.input_bytes / row.jobs
    return Data(known, near)


def consequences(tally: Tally, records: Mapping[tuple[str, str], QueueRecord], data: Data) -> tuple[Consequence, ...]:
    """Four lines for each brokerage of jobs: each side, and the queues that only that side uses."""
    lines = []
    for brokerage, counts in sorted(tally.all.items()):
        if brokerage == TASK_BROKERAGE or not counts.compared:
            continue
        own = {queue: one for (name, queue), one in records.items() if name == brokerage}
        for placed, jobs in _sides(counts).items():
            wan, unknown = _over_wan(tally, brokerage, placed in ("ours", "ours_only"), jobs, data)
            lines.append(_line(brokerage, placed, jobs, own, wan, unknown))
    return tuple(lines)


def _sides(counts: Agreement) -> dict[Placed, Jobs]:
    panda = {queue: float(jobs) for queue, jobs in counts.panda.items()}
    ours = dict(counts.ours)
    return {
        "panda": panda,
        "ours": ours,
        "panda_only": {queue: jobs for queue, jobs in panda.items() if queue not in ours},
        "ours_only": {queue: jobs for queue, jobs in ours.items() if queue not in panda},
    }


def _over_wan(tally: Tally, brokerage: str, ours: bool, queues: Jobs, data: Data) -> tuple[float | None, float]:
    """Bytes that jobs at these queues transfer over the network, and the number of jobs whose bytes are unknown."""
    total, unknown, known = 0.0, 0.0, 0.0
    for one, chances in tally.placements:
        if one.brokerage != brokerage:
            continue
        places = chances if ours else {unified_of(one.queue): 1.0}
        for queue, part in places.items():
            if queue not in queues:
                continue
            size = data.wan_bytes(one.jeditaskid, one.datasetid, queue)
            if size is None:
                unknown += one.jobs * part
            else:
                known += one.jobs * part
                total += one.jobs * part * size
    return (total if known else None), round(unknown, 3)


def _line(
    brokerage: str,
    placed: Placed,
    jobs: Jobs,
    records: Mapping[str, QueueRecord],
    wan: float | None,
    unknown: float,
) -> Consequence:
    waiting_times = {queue: one.waiting_s for queue, one in records.items()}
    failure_rates = {
        queue: one.failed / (one.failed + one.finished) for queue, one in records.items() if one.failed + one.finished
    }
    job_core_hours = {queue: one.core_hours for queue, one in records.items()}
    hours = [count * cost for queue, count in jobs.items() if (cost := job_core_hours.get(queue)) is not None]
    return Consequence(
        brokerage=brokerage,
        placed=placed,
        queues=len(jobs),
        jobs=round(sum(jobs.values()), 3),
        wan_bytes=wan,
        wan_unknown_jobs=unknown,
        waiting_s=_mean(jobs, waiting_times),
        failure_rate=_mean(jobs, failure_rates),
        core_hours=sum(hours) if hours else None,
        no_record_jobs=round(sum(count for queue, count in jobs.items() if queue not in records), 3),
    )


def _mean(jobs: Jobs, values: Mapping[str, float | None]) -> float | None:
    """The mean of the known values, weighted by jobs."""
    known = [(count, value) for queue, count in jobs.items() if (value := values.get(queue)) is not None]
    total = sum(count for count, _ in known)
    return sum(count * value for count, value in known) / total if total else None

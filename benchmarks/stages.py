"""The cost of a cycle of a job brokerage between reading and writing, stage by stage, in CPU time of all threads.

A cycle derives facts (constructor), judges and ranks with the reasons in order (decide), draws queues and cuts jobs
(cut), and packs each decision into its stored form (pack). The compiled loop leaves columns, from which decisions and
rows of jobs are made in the last stage. Each chunk sees what earlier chunks have placed. Two more figures are the cost
of keeping each chunk for replays, and the independent path of what-if, where every chunk sees the grid of the snapshot.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from time import process_time
from typing import Any

from benchmarks.plain_rules import reference_s_per_pair
from broker.brokerages.base import StageTimes
from broker.brokerages.job.assign import assign_chunks
from broker.brokerages.job.assigned import jobs_of
from broker.brokerages.job.brokerage import JobsCycle
from broker.domain.decisions import DecisionRecord
from broker.engine.compiled import loading
from broker.engine.job.cycle import JobCycle
from broker.engine.job.decision import decision_of
from broker.store.decisions.decision_writing import packed
from broker.work.assemble import CycleWork

#: Smaller cycles are not measured with the compiled loop, which would take longer to load.
LEAST_CHUNKS = 100
#: Chunks per transaction, as in agents.
BATCH = 250

MakeCycle = Callable[[bool], JobCycle]


@dataclass(frozen=True)
class Stages:
    """CPU seconds of each stage of one cycle, and its results."""

    constructor_s: float
    decide_s: float
    cut_s: float
    pack_s: float
    keep_work_s: float
    jobs: int
    brokered: int

    @property
    def total_s(self) -> float:
        """The sum of all stages up to decisions ready to be stored, without the work kept for replays."""
        return self.constructor_s + self.decide_s + self.cut_s + self.pack_s


def one_cycle(make: MakeCycle, work: CycleWork, seed: int = 1, *, compiled: bool = False) -> Stages:
    """Run a whole cycle in which each chunk sees what earlier chunks have placed.

    Args:
        make: makes a new cycle, independent if its argument is true.
        work: the chunks with their files.
        seed: the seed of the draws.
        compiled: use the compiled loop, which ranks in the stage ``cut``.

    Raises:
        RuntimeError: a rule could not be run.
    """
    loading.mode = "always" if compiled else "never"
    start_s = process_time()
    cycle = make(False)
    times = StageTimes()
    constructed_s = process_time()
    jobs_cycle, names = JobsCycle(cycle, work), cycle.snapshot.queues.name
    pack_s, keep_work_s, jobs, brokered = 0.0, 0.0, 0, 0
    assigned = assign_chunks(cycle, work, seed, times, process_time)
    while batch := list(islice(assigned, BATCH)):
        batch_start_s = process_time()
        packed([DecisionRecord(chunk.decision, chunk.assigned(names), None) for chunk in batch])
        # jobs and loads of all chunks, as the writer needs them
        batch_jobs = len(jobs_of(batch)[0])
        _ = [chunk.before for chunk in batch]
        packed_s = process_time()
        for chunk in batch:
            jobs_cycle.encode(chunk)
        pack_s, keep_work_s = pack_s + packed_s - batch_start_s, keep_work_s + process_time() - packed_s
        jobs += batch_jobs
        brokered += [chunk.decision.outcome for chunk in batch].count("brokered")
    if cycle.faults:
        raise RuntimeError(f"a rule could not be run: {cycle.faults[0]}")
    return Stages(constructed_s - start_s, times.decide_s, times.cut_s, pack_s, keep_work_s, jobs, brokered)


def independent_s(make: MakeCycle) -> float:
    """Return the CPU seconds of judging every chunk against the snapshot, with the reasons in order but no jobs cut."""
    start_s = process_time()
    cycle = make(True)
    for result in cycle.results():
        decision_of(cycle, result)
    return process_time() - start_s


def peak_mb(make: MakeCycle, work: CycleWork) -> float:
    """Return the peak memory of a cycle in addition to the snapshot and the work."""
    tracemalloc.start()
    try:
        one_cycle(make, work)
        return tracemalloc.get_traced_memory()[1] / 1024**2
    finally:
        tracemalloc.stop()


def measure_stages(make: MakeCycle, work: CycleWork, rounds: int) -> dict[str, Any]:
    """Return the fastest of several rounds as a row of the report.

    ``times_reference`` is the time of ten rules in plain Python for the same pairs in the same run, divided by the time
    of the cycle; ``decide_times_reference`` divides it by constructor and decisions only, because the reference cuts no
    jobs. ``compiled_*`` are of the same cycle with the compiled loop; they are None if the extra is not installed or if
    there are very few chunks.
    """
    stages = min((one_cycle(make, work) for _ in range(rounds)), key=lambda stage_times: stage_times.total_s)
    independent_time_s = min(independent_s(make) for _ in range(rounds))
    cycle = make(True)
    chunks, queues = cycle.work.chunks, cycle.snapshot.queues
    pairs = len(chunks) * len(queues)
    reference_s = pairs * min(reference_s_per_pair(chunks, queues) for _ in range(rounds))
    compiled_stages = None
    if find_spec("numba") is not None and len(chunks) >= LEAST_CHUNKS:
        # the first round loads or compiles the loop
        compiled_stages = min(
            (one_cycle(make, work, compiled=True) for _ in range(rounds + 1)),
            key=lambda stage_times: stage_times.total_s,
        )
    return {
        "tasks": len(chunks),
        "pseudo_queues": len(queues),
        "constructor_s": stages.constructor_s,
        "decide_s": stages.decide_s,
        "cut_s": stages.cut_s,
        "pack_s": stages.pack_s,
        "keep_work_s": stages.keep_work_s,
        "total_s": stages.total_s,
        "tasks_per_s": len(chunks) / stages.total_s,
        "ns_per_cell": stages.total_s / pairs * 1e9,
        "times_reference": reference_s / stages.total_s,
        "decide_times_reference": reference_s / (stages.constructor_s + stages.decide_s),
        "independent_s": independent_time_s,
        "independent_times_reference": reference_s / independent_time_s,
        "peak_mb": peak_mb(make, work),
        "compiled_decide_s": None if compiled_stages is None else compiled_stages.decide_s,
        "compiled_cut_s": None if compiled_stages is None else compiled_stages.cut_s,
        "compiled_pack_s": None if compiled_stages is None else compiled_stages.pack_s,
        "compiled_total_s": None if compiled_stages is None else compiled_stages.total_s,
        "compiled_times_reference": None if compiled_stages is None else reference_s / compiled_stages.total_s,
        "brokered": stages.brokered,
        "jobs": stages.jobs,
    }

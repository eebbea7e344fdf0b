"""What a cycle of a job brokerage costs between reading and writing, stage by stage, in CPU time of all threads.

A cycle works out facts (constructor), judges and ranks with the reasons in order (decide), draws queues and cuts jobs
(cut), and brings each decision into the form in which it is stored (pack); the compiled loop leaves columns, of which
decisions and rows of jobs are made in the last stage. What each chunk placed counts for those after it. Beside the
stages stands what it takes to keep each chunk so that it can be decided again, and the independent path, on which
what-if rests: every chunk meets the grid of the snapshot.
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

#: Cycles of fewer chunks are not measured with the compiled loop, which would take longer to load.
LEAST_CHUNKS = 100
#: Chunks of a transaction, as agents have it.
BATCH = 250

MakeCycle = Callable[[bool], JobCycle]


@dataclass(frozen=True)
class Stages:
    """CPU seconds of each stage of one cycle, and what came of it."""

    constructor_s: float
    decide_s: float
    cut_s: float
    pack_s: float
    keep_work_s: float
    jobs: int
    brokered: int

    @property
    def total_s(self) -> float:
        """All stages up to decisions ready to be stored, without the work that is kept beside them for replays."""
        return self.constructor_s + self.decide_s + self.cut_s + self.pack_s


def one_cycle(make: MakeCycle, work: CycleWork, seed: int = 1, *, compiled: bool = False) -> Stages:
    """A whole cycle in which each chunk finds what those before it have placed.

    Args:
        make: a new cycle; independent if its argument is true.
        work: the chunks with their files.
        seed: of the draws.
        compiled: by the compiled loop, which ranks in the stage in which it cuts.

    Raises:
        RuntimeError: a rule could not be run.
    """
    loading.mode = "always" if compiled else "never"
    started = process_time()
    cycle = make(False)
    times = StageTimes()
    made = process_time()
    whole, names = JobsCycle(cycle, work), cycle.snapshot.queues.name
    pack_s, keep_work_s, jobs, brokered = 0.0, 0.0, 0, 0
    assigned = assign_chunks(cycle, work, seed, times, process_time)
    while together := list(islice(assigned, BATCH)):
        before = process_time()
        packed([DecisionRecord(one.decision, one.assigned(names), None) for one in together])
        # jobs and loads of all chunks as the writer takes them
        made_jobs = len(jobs_of(together)[0])
        _ = [one.before for one in together]
        taken = process_time()
        for one in together:
            whole.encode(one)
        pack_s, keep_work_s = pack_s + taken - before, keep_work_s + process_time() - taken
        jobs += made_jobs
        brokered += [one.decision.outcome for one in together].count("brokered")
    if cycle.faults:
        raise RuntimeError(f"a rule could not be run: {cycle.faults[0]}")
    return Stages(made - started, times.decide_s, times.cut_s, pack_s, keep_work_s, jobs, brokered)


def independent_s(make: MakeCycle) -> float:
    """CPU seconds of judging every chunk against the snapshot, reasons in order included; nothing is cut."""
    started = process_time()
    cycle = make(True)
    for result in cycle.results():
        decision_of(cycle, result)
    return process_time() - started


def peak_mb(make: MakeCycle, work: CycleWork) -> float:
    """The most memory that a cycle holds beside the snapshot and the work."""
    tracemalloc.start()
    try:
        one_cycle(make, work)
        return tracemalloc.get_traced_memory()[1] / 1024**2
    finally:
        tracemalloc.stop()


def measured(make: MakeCycle, work: CycleWork, rounds: int) -> dict[str, Any]:
    """The fastest of several rounds as a row of the report.

    ``times_reference`` says how often the cycle goes into the time that ten rules in plain Python take for the same
    pairs in the same run, ``decide_times_reference`` how often its constructor and its decisions do: the reference cuts
    no jobs. ``compiled_*`` are of the same cycle by the compiled loop, None where the extra is not
    installed and for very few chunks.
    """
    stages = min((one_cycle(make, work) for _ in range(rounds)), key=lambda one: one.total_s)
    apart = min(independent_s(make) for _ in range(rounds))
    cycle = make(True)
    chunks, queues = cycle.work.chunks, cycle.snapshot.queues
    pairs = len(chunks) * len(queues)
    reference_s = pairs * min(reference_s_per_pair(chunks, queues) for _ in range(rounds))
    by_loop = None
    if find_spec("numba") is not None and len(chunks) >= LEAST_CHUNKS:
        # the first round loads or compiles it
        by_loop = min((one_cycle(make, work, compiled=True) for _ in range(rounds + 1)), key=lambda one: one.total_s)
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
        "independent_s": apart,
        "independent_times_reference": reference_s / apart,
        "peak_mb": peak_mb(make, work),
        "compiled_decide_s": None if by_loop is None else by_loop.decide_s,
        "compiled_cut_s": None if by_loop is None else by_loop.cut_s,
        "compiled_pack_s": None if by_loop is None else by_loop.pack_s,
        "compiled_total_s": None if by_loop is None else by_loop.total_s,
        "compiled_times_reference": None if by_loop is None else reference_s / by_loop.total_s,
        "brokered": stages.brokered,
        "jobs": stages.jobs,
    }

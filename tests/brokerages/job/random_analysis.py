"""Random cycles of the analysis brokerage: users with jobs, throttled users, classes and load-dependent filters."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from broker.domain.analysis import AnalysisGrid, AnalysisWork, QuotaLine, UserQueue
from broker.engine.analysis.chain import AnalysisChain
from broker.engine.analysis.cycle import AnalysisCycle
from broker.gdpconfig import Tuning
from broker.rules.analysis_job.filters.queue_cap import QueueCap
from broker.rules.analysis_job.filters.user_queue_length import UserQueueLength
from broker.rules.analysis_job.weights.analysis_running_queued import AnalysisRunningQueued
from broker.rules.analysis_job.weights.local_data import LocalData
from broker.rules.analysis_job.weights.new_basic_weight import NewBasicWeight
from broker.rules.contract import LoadCut
from broker.work.assemble import CycleWork
from tests.brokerages.job.random_cycles import Random, one_of, random_grid, random_settings, random_work, with_files
from tests.engine.analysis.analysis_requests import requests
from tests.engine.toy_rules import Factor, Toy

SHARES, USERS, LABELS = ("User Analysis", "Group"), ("ann", "bob", "cec", "over"), ("user", "panda")
TYPES = ("SCORE", "MCORE")
FIELDS = {
    "type": lambda random: one_of(random, "analysis", "unified"),
    "capability": lambda random: one_of(random, "score", "ucore"),
}


def _grid(random: Random, names: list[str]) -> AnalysisGrid:
    size = len(names)

    def amounts(most: int) -> Any:
        return random.integers(0, most, size).astype(np.float64) * (random.random(size) < 0.6)

    pairs = [(user, share) for user in USERS for share in SHARES]
    return AnalysisGrid(
        starts=amounts(50),
        users={share: amounts(5) for share in SHARES[:1]},
        users_running={(share, "user"): np.where(random.random(size) < 0.2, np.nan, amounts(90)) for share in SHARES},
        present={pair: np.flatnonzero(random.random(size) < 0.3) for pair in pairs},
        by_user={
            (*pair, "user"): UserQueue(at, random.integers(0, 25, len(at)) * 1.0, random.integers(0, 30, len(at)) * 1.0)
            for pair in pairs
            if len(at := np.flatnonzero(random.random(size) < 0.5))
        },
        by_type={(share, kind): np.stack([amounts(45), amounts(40)]) for share in SHARES for kind in TYPES},
        site_class=random.choice([-1.0, 0.0, 1.0, np.nan], size),
        quotas={"over": (QuotaLine("X", 5.0, 4.0),)},
    )


def _requests(random: Random, count: int, names: list[str]) -> AnalysisWork:
    return requests(
        count,
        excluded_sites=[one_of(random, None, None, names[0]) for _ in range(count)],
        task_class=random.choice([-1.0, 0.0, 1.0, 2.0, np.nan], count),
        jobs_estimate=random.integers(1, 60, count) * 1.0,
        sites_per_job=random.choice([1, 1, 1, 2, 13], count),
        avoid_vp=random.random(count) < 0.1,
    )


def _tuning(random: Random, new_weight: bool) -> Tuning:
    return Tuning.defaults().with_values(
        {
            "NEW_BASIC_WEIGHT": new_weight,
            "BASE_QUEUE_LENGTH_PER_PQ": one_of(random, 5, 20),
            "BASE_DEFAULT_QUEUE_LENGTH_PER_PQ_USER": one_of(random, 3, 12),
            "BASE_EXPECTED_WAIT_HOUR_ON_PQ": one_of(random, 0.5, 8),
            "MIN_WEIGHT_user": one_of(random, 0, 0.4),
        }
    )


def random_analysis(
    seed: int,
    count: int,
    queues: int,
    cuts: tuple[LoadCut, ...],
    new_weight: bool,
    cap_constants: tuple[float, ...] = (),
) -> tuple[AnalysisCycle, CycleWork]:
    """Make a cycle of ``count`` chunks and ``queues`` queues, and its work. Equal arguments give equal results.

    ``cap_constants`` replace the constants of the cap.
    """
    random = np.random.default_rng(seed)
    snapshot, settings = random_grid(random, queues, **FIELDS), [random_settings(random) for _ in range(count)]
    names = [str(name) for name in snapshot.unified.name]
    snapshot = dataclasses.replace(snapshot, analysis=_grid(random, names))
    work = with_files(random, random_work(random, count, settings), settings)
    chunks = work.work.chunks
    for row in range(count):
        chunks.gshare[row], chunks.username[row] = one_of(random, *SHARES), one_of(random, *USERS, None)
        chunks.prodsourcelabel[row], chunks.resource_type[row] = one_of(random, *LABELS), one_of(random, *TYPES, None)
        chunks.nucleus[row], chunks.site[row] = None, one_of(random, None, None, None, None, names[-1])
    work = dataclasses.replace(
        work, work=dataclasses.replace(work.work, analysis_request=_requests(random, count, names))
    )
    size = len(snapshot.queues)
    masks = random.random((3, count, size)) < np.array([0.9, 0.8, 0.9])[:, None, None]
    steps = random.choice([0.0, 0.5, 1.0, 3.7], size=(count, size))

    def by_chunk(table: Any) -> Any:
        return lambda chunks, candidates, facts: table[chunks.datasetid[:, 0] - 90]

    cap = QueueCap()
    if cap_constants:
        cap.waiting_times, cap.least_running = cap_constants
    filters = (
        Toy("gone", by_chunk(masks[0])),
        cap,
        Toy("for_now", by_chunk(masks[1]), kind="temporary"),
        UserQueueLength(),
        Toy("not_known", by_chunk(masks[2]), unknown=by_chunk(~masks[1])),
    )
    weights = (LocalData(), Factor("other", by_chunk(steps + 0.1)), NewBasicWeight())
    chain = AnalysisChain("random", filters, weights, (AnalysisRunningQueued(),), cuts)
    return AnalysisCycle(snapshot, work.work, _tuning(random, new_weight), chain), work

"""Synthetic flow problems of one cycle, for the benchmark of ``flow`` and its tests."""

from __future__ import annotations

import numpy as np

from broker.flow.model.problem import FlowChunks, FlowCosts, FlowPairs, FlowProblem, FlowQueues

SHARES = 8


def grid_problem(chunks: int, queues: int, seed: int, costs: FlowCosts | None = None) -> FlowProblem:
    """Make a cycle of a synthetic grid: mean 13.7 jobs per chunk, a third of the queues feasible, limits tight."""
    random = np.random.default_rng(seed)
    sites = max(1, queues // 2)
    running = random.lognormal(6.0, 1.0, queues)
    flow_chunks = FlowChunks(
        key=np.arange(chunks, dtype=np.int64),
        jobs=random.geometric(1 / 13.7, chunks).astype(np.int64),
        cores=random.choice([1.0, 8.0], chunks, p=[0.4, 0.6]),
        work_hs06s=random.lognormal(12.5, 0.8, chunks),
        input_gb=random.choice([0.0, 0.4, 3.0, 14.0, 20.0], chunks),
        share=random.integers(SHARES, size=chunks),
        priority=random.choice([250.0, 550.0, 930.0], chunks),
    )
    feasible = random.random((chunks, queues)) < 0.3
    chunk, queue = np.nonzero(feasible)
    local = random.random(len(chunk)) < 0.1
    return FlowProblem(
        chunks=flow_chunks,
        queues=FlowQueues(
            corepower=random.uniform(8, 16, queues),
            efficiency=random.uniform(0.6, 0.95, queues),
            failure=random.beta(2, 38, queues),
            running_cores=running,
            waiting_cores=running * random.uniform(0, 1.5, queues),
            room=np.floor(random.uniform(0, 0.6, (queues, SHARES)) * running[:, None] / 8),
            link=np.arange(queues) % sites,
        ),
        pairs=FlowPairs(
            chunk=chunk.astype(np.int64),
            queue=queue.astype(np.int64),
            missing=np.where(local, 0.0, 1.0),
            rate_gb_s=random.uniform(0.005, 0.05, len(chunk)),
            output=random.integers(-1, 30, len(chunk)),
        ),
        link_gb=random.uniform(50, 2000, sites),
        output_jobs=np.floor(random.uniform(50, 1000, 30) * max(1.0, chunks / 400)),
        share_debt_hs06=random.uniform(0, 5000, SHARES),
        costs=costs or FlowCosts(),
    )

"""How long one cycle of ``flow`` takes: the linear program by columns, then whole jobs by seed.

The problems are synthetic; a third of the queues is feasible for each chunk. The gap is the extra cost of whole jobs
over the linear program. Broken limits are counted. Usage: ``python -m benchmarks.bench_flow [FOLDER]``.
"""

from __future__ import annotations

import os
from time import process_time
from typing import Any

# use one core: threads of numerical libraries would make the figures depend on the machine
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from benchmarks.flow_problems import grid_problem  # noqa: E402
from benchmarks.measuring import asked_folder, report  # noqa: E402
from broker.flow.model.cycle import broken_limits, decide  # noqa: E402
from broker.flow.model.program import FlowProgram  # noqa: E402

CASES = ((1000, 220), (3000, 220), (1000, 500))
SEEDS = (1, 2, 3)
NO_LIMIT_S = 600.0


def measure(chunks: int, queues: int, seed: int) -> dict[str, Any]:
    """Decide one problem without a time limit."""
    problem = grid_problem(chunks, queues, seed)
    start_s = process_time()
    result = decide(problem, seed, time_limit_s=NO_LIMIT_S)
    cpu_s = process_time() - start_s
    linear = result.linear
    return {
        "chunks": chunks,
        "queues": queues,
        "seed": seed,
        "pairs": len(problem.pairs),
        "cpu_s": cpu_s,
        "gap": result.gap,
        "limits_broken": broken_limits(problem, FlowProgram(problem).rows, result.jobs),
        "columns": 0 if linear is None else linear.columns,
        "rounds": 0 if linear is None else linear.rounds,
        "fallback": result.fallback,
    }


def main() -> None:
    """Measure all cases and report."""
    folder = asked_folder()
    rows = [measure(*case, seed) for case in CASES for seed in SEEDS]
    report(folder, "flow", rows, target="3,000 chunks x 220 queues: cpu_s <= 10, gap <= 0.01, limits_broken 0")


if __name__ == "__main__":
    main()

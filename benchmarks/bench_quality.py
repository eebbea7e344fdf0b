"""What measuring the quality of one cycle costs: reading, judging again, the linear program, and the cost of its rules.

The cycle is a stored one of 1,000 chunks; the agent measures such cycles in a separate process. Usage:
``python -m benchmarks.bench_quality [FOLDER]``.
"""

from __future__ import annotations

import os
from time import process_time
from typing import Any

# use one core: threads of numerical libraries would make the figures depend on the machine
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from agents.quality.decision_quality import DecisionQualityAgent, DecisionQualityOptions  # noqa: E402
from agents.quality.measuring import measure_case  # noqa: E402
from agents.service.configuration import ProcessSettings, load_profile  # noqa: E402
from benchmarks.measuring import asked_folder, report  # noqa: E402
from benchmarks.stored_cycles import day_of_cycles  # noqa: E402
from broker.flow.model.quality import Measured  # noqa: E402
from broker.store.decisions.stored_cycles import cycle_keys  # noqa: E402
from broker.store.gdpconfig_rows import TuningStore  # noqa: E402
from broker.whatif.model.cases import Case, ProfileRules  # noqa: E402
from broker.whatif.statements.case_rows import read_case  # noqa: E402

CASES = ((1000, 220), (1000, 500))
JOBS_OF_A_TASK = 50
ROUNDS = 3


def stored_case(tasks: int, queues: int) -> Case:
    """Make a stored cycle of a synthetic grid."""
    with day_of_cycles(1, tasks, queues, JOBS_OF_A_TASK * tasks) as database, database.read_snapshot() as connection:
        (key,) = cycle_keys(connection, brokerages=["production_job"])
        store = TuningStore(database.names)
        return read_case(connection, key, lambda version: store.version(connection, version))


def measure(tasks: int, queues: int) -> dict[str, Any]:
    """Measure one cycle several times, as the agent does; the least CPU time counts."""
    case, rules = stored_case(tasks, queues), ProfileRules(load_profile("seed"))
    yardstick = DecisionQualityAgent(DecisionQualityOptions(), ProcessSettings()).yardstick()
    seconds = []
    for _ in range(ROUNDS):
        start_s = process_time()
        (measurement,) = measure_case(case, rules, yardstick)
        seconds.append(process_time() - start_s)
    if not isinstance(measurement.result, Measured):
        raise RuntimeError(f"nothing was measured: {measurement.result}")
    return {
        "chunks": tasks,
        "pseudo_queues": queues,
        "cpu_s": min(seconds),
        "cpu_first_s": seconds[0],
        "regret_hs06h": measurement.result.regret_hs06h,
        "best_hs06h": measurement.result.best.total,
        "rules": len(measurement.result.rules),
        "rules_bound": sum(line.is_bound for line in measurement.result.rules),
    }


def main() -> None:
    """Measure all cases and report."""
    folder = asked_folder()
    report(folder, "quality", [measure(*case) for case in CASES], target="1,000 chunks: cpu_s < 3")


if __name__ == "__main__":
    main()

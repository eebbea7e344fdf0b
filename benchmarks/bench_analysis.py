"""How fast the analysis brokerage decides: throttle, both passes, stabilizer, weights, reasons and jobs, on one core.

The grid and the work are those of the production benchmark, assigned to 200 users. ``benchmarks/stages.py`` describes
what is timed, and the reference.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Any

# use one core: threads of numerical libraries would make the figures depend on the machine
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from agents.brokerage.grid_reading import GridReader  # noqa: E402
from agents.service.configuration import config_file  # noqa: E402
from benchmarks.measuring import NOW, asked_folder, loaded, report  # noqa: E402
from benchmarks.scenario import make_scenario  # noqa: E402
from benchmarks.scenario_users import give_to_users  # noqa: E402
from benchmarks.stages import measure_stages  # noqa: E402
from broker.brokerages.analysis_job.brokerage import chain  # noqa: E402
from broker.brokerages.job.chunk_jobs import estimated_jobs  # noqa: E402
from broker.engine.analysis.chain import AnalysisChain  # noqa: E402
from broker.engine.analysis.cycle import AnalysisCycle  # noqa: E402
from broker.gdpconfig import Tuning  # noqa: E402
from broker.snapshot.snapshot import Snapshot  # noqa: E402
from broker.store.connection.database import Database  # noqa: E402
from broker.store.connection.tables import TableCatalogue  # noqa: E402
from broker.store.reads.analysis_requests import load_analysis_work  # noqa: E402
from broker.store.reads.chunk_loading import load_work  # noqa: E402
from broker.store.reads.chunk_reads import WorkSelection  # noqa: E402
from broker.work.assemble import CycleWork  # noqa: E402

CASES = ((2000, 500), (1000, 500), (1000, 1000))
ROUNDS = 5
JOBS_OF_A_TASK = 50


def read(database: Database) -> tuple[Snapshot, CycleWork]:
    """Assign the scenario to users, and read its snapshot and work."""
    give_to_users(database)
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        reader = GridReader("live", config_file("sources.yaml", None), analysis=True)
        snapshot = reader.read(connection, catalogue, NOW, lambda: None).snapshot
        work = load_work(connection, catalogue, WorkSelection(labels_excluded=False))
        request, _ = load_analysis_work(connection, catalogue, work.work.chunks, NOW, 6.0)
    return snapshot, replace(work, work=replace(work.work, analysis_request=request))


def measure(tasks: int, queues: int, new_weight: bool = False) -> dict[str, Any]:
    """Decide one scenario several times."""
    with loaded(make_scenario(tasks, queues, JOBS_OF_A_TASK * tasks, seed=1)) as database:
        snapshot, work = read(database)
    tuning, rules = Tuning.defaults().with_values({"NEW_BASIC_WEIGHT": new_weight}), chain()

    if new_weight:
        request = work.work.analysis_request
        assert request is not None
        with_estimate = replace(request, jobs_estimate=estimated_jobs(work))
        work = replace(work, work=replace(work.work, analysis_request=with_estimate))
    make = partial(_cycle, snapshot, work, tuning, rules)
    return {"new_weight": new_weight, **measure_stages(make, work, ROUNDS)}


def _cycle(
    snapshot: Snapshot, work: CycleWork, tuning: Tuning, rules: AnalysisChain, independent: bool
) -> AnalysisCycle:
    return AnalysisCycle(snapshot, work.work, tuning, rules, independent=independent)


def main() -> None:
    """Measure all cases and report."""
    folder = asked_folder()
    rows = [measure(*case) for case in CASES] + [measure(*CASES[0], new_weight=True)]
    report(folder, "analysis", rows, seconds="CPU time of all threads", reference="benchmarks/plain_rules.py")


if __name__ == "__main__":
    main()

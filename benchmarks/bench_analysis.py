"""How fast the analysis brokerage decides: throttle, both passes, stabilizer, weights and reasons, on one core.

The grid and the work are those of the production benchmark, given to 200 users; the database is left out of the time.
"""

from __future__ import annotations

import os
from typing import Any

# one core: the threads of numerical libraries would make the figure depend on the machine
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import sqlalchemy as sa  # noqa: E402

from agents.brokerage.grid_reading import GridReader  # noqa: E402
from agents.service.configuration import config_file  # noqa: E402
from benchmarks.measuring import NOW, best_of, loaded, report  # noqa: E402
from benchmarks.scenario import make_scenario  # noqa: E402
from broker.brokerages.analysis_job.rules import chain  # noqa: E402
from broker.domain.work import Work  # noqa: E402
from broker.engine.analysis.cycle import AnalysisCycle  # noqa: E402
from broker.gdpconfig import Tuning  # noqa: E402
from broker.snapshot.snapshot import Snapshot  # noqa: E402
from broker.store.connection.database import Database  # noqa: E402
from broker.store.connection.tables import TableCatalogue  # noqa: E402
from broker.store.reads.analysis_requests import load_analysis_work  # noqa: E402
from broker.store.reads.chunk_loading import load_work  # noqa: E402
from broker.store.reads.chunk_reads import WorkSelection  # noqa: E402

CASES = ((2000, 500), (1000, 500), (1000, 1000))
ROUNDS = 5

GIVE_TO_USERS = (
    "UPDATE {panda}.jedi_tasks SET prodsourcelabel = 'user', gshare = 'User Analysis', nucleus = NULL, "
    "username = 'user' || jeditaskid % 200",
    "UPDATE {panda}.schedconfig_json SET data = jsonb_set(data::jsonb, '{{type}}', '\"unified\"')",
    "UPDATE {panda}.jobsactive4 SET gshare = 'User Analysis', produsername = 'user' || pandaid % 200",
    "UPDATE {panda}.jobsdefined4 SET gshare = 'User Analysis', produsername = 'user' || pandaid % 200",
)


def read(database: Database) -> tuple[Snapshot, Work]:
    """Give the scenario to users, and read it."""
    with database.begin() as connection:
        for statement in GIVE_TO_USERS:
            connection.execute(sa.text(statement.format(panda=database.names.panda)))
    with database.read_snapshot() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        reader = GridReader("live", config_file("sources.yaml", None), analysis=True)
        snapshot = reader.read(connection, catalogue, NOW, lambda: None).snapshot
        work = load_work(connection, catalogue, WorkSelection(labels_excluded=False)).work
        analysis_request, _ = load_analysis_work(connection, catalogue, work.chunks, NOW, 6.0)
    return snapshot, Work(work.chunks, work.inputs, work.replicas, analysis_request=analysis_request)


def measure(tasks: int, queues: int, new_weight: bool = False) -> dict[str, Any]:
    """Decide one scenario several times."""
    with loaded(make_scenario(tasks, queues, 20 * queues, seed=1)) as database:
        snapshot, work = read(database)
    tuning, rules = Tuning.defaults().with_values({"NEW_BASIC_WEIGHT": new_weight}), chain()

    def decide() -> int:
        cycle = AnalysisCycle(snapshot, work, tuning, rules, independent=True)
        brokered = sum(1 for result in cycle.results() if not result.reason)
        if cycle.faults:
            raise RuntimeError(f"a rule could not be run: {cycle.faults[0]}")
        return brokered

    seconds, brokered = best_of(ROUNDS, decide)
    return {
        "tasks": len(work.chunks),
        "pseudo_queues": len(snapshot.queues),
        "new_weight": new_weight,
        "decide_s": seconds,
        "tasks_per_s": len(work.chunks) / seconds,
        "brokered": brokered,
    }


def main() -> None:
    """Measure all cases and report."""
    rows = [measure(*case) for case in CASES] + [measure(*CASES[0], new_weight=True)]
    report("analysis", rows, target="tasks_per_s >= 5000 at 2000 x 500 on one core")


if __name__ == "__main__":
    main()

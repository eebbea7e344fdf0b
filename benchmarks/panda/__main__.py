"""How many times faster our brokerages are than PanDA's own: one grid, one process, CPU time, rounds in turn.

    make bench-panda GRID=grid.json.gz

PanDA's brokers are those of the installed panda-server. Their queries to the database and to Rucio are answered from
memory and not counted. Our brokerages go from the snapshot and the work to decisions ready to be stored: constructor,
judging with every reason, ranking, drawing, cutting jobs, packing. PanDA's brokers end with their candidates, cut no
jobs, and store nothing but their log.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

# use one core: threads of numerical libraries would make the figures depend on the machine
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import typer  # noqa: E402

from benchmarks.measuring import RESULTS, report  # noqa: E402
from benchmarks.panda import ours  # noqa: E402
from benchmarks.panda.rounds import measure_rounds  # noqa: E402
from benchmarks.panda.site import PandaSite, panda_over  # noqa: E402
from benchmarks.panda.theirs import ChunkWork, TaskWork  # noqa: E402
from broker.store.connection.database import Database  # noqa: E402
from broker.store.connection.embedded import EmbeddedServer  # noqa: E402
from broker.store.scenarios.load_dump import load  # noqa: E402
from broker.store.scenarios.scenario_file import Scenario, read_scenario  # noqa: E402
from broker.store.schema.migrate import upgrade  # noqa: E402

OURS = {
    "production_job": ours.production_jobs,
    "production_task": ours.production_tasks,
    "analysis_job": ours.analysis_jobs,
}
THEIRS: dict[str, Callable[[PandaSite], ChunkWork | TaskWork]] = {
    "production_job": partial(ChunkWork, analysis=False),
    "production_task": TaskWork,
    "analysis_job": partial(ChunkWork, analysis=True),
}


@contextmanager
def _loaded(scenario: Scenario, home: Path) -> Iterator[Database]:
    """Yield an embedded database in ``home`` with the grid."""
    server = EmbeddedServer(home)
    database = Database(server.start(), on_close=server.stop)
    try:
        upgrade(database)
        load(database, scenario)
        with database.autocommit() as connection:
            connection.exec_driver_sql("ANALYZE")
        yield database
    finally:
        database.close()


def compare(scenario: Scenario, brokerages: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """Compare PanDA's brokers and ours on one grid; return the rows of the report."""
    with tempfile.TemporaryDirectory(prefix="gridbroker-panda-") as folder:
        home = Path(folder)
        with _loaded(scenario, home) as database:
            # this must precede the creation of PanDA's own tables
            our_cycles = {name: OURS[name](database, scenario.now) for name in brokerages}
            (home / "panda").mkdir()
            with panda_over(str(database.url), scenario.now, home / "panda") as site:
                rows = []
                for name in brokerages:
                    work = THEIRS[name](site)
                    rows_of_brokerage = measure_rounds(work.run, our_cycles[name], rounds, home / f"{name}.log")
                    rows += [{"brokerage": name, **row} for row in rows_of_brokerage]
                    with_log = rows_of_brokerage[0]
                    summary = f"PanDA {with_log['panda_ms']:.1f} ms a chunk, ours {with_log['ms']:.3f}"
                    typer.echo(f"{name}: {summary}, compiled {with_log['compiled_ms']:.3f}", err=True)
                return rows


def main(
    grid: Annotated[Path, typer.Argument(help="a scenario file with a grid and its work, .json or .json.gz")],
    folder: Annotated[Path, typer.Argument(help="where the report panda.json is written")] = RESULTS,
    brokerage: Annotated[list[str] | None, typer.Option(help="only these brokerages")] = None,
    rounds: Annotated[int, typer.Option(help="timed rounds of PanDA's", min=1)] = 3,
) -> None:
    """Measure PanDA's brokers and ours side by side, and report."""
    rows = compare(read_scenario(grid), brokerage or list(OURS), rounds)
    facts = {"panda_server": version("panda-server"), "grid": grid.name, "rounds": rounds, "ms": "CPU time, medians"}
    report(folder, "panda", rows, **facts)


if __name__ == "__main__":
    typer.run(main)

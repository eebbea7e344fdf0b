"""Calibrate on eight days that the simulator made from a hidden truth, and compare the ninth day with the forecast.

The calibration does not know the true speeds and failures of queues, nor the tasks: it reads PanDA's tables, filled as
a site's would be. At least 70 % of the cells of the ninth day with 200 jobs or more must lie in the printed 80 %
interval. A tenth day lets the jobs of the ninth end.

Run: python -m benchmarks.hidden_truth [--policy panda] [--seeds 10] [--truth 1]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import sqlalchemy as sa

from broker.cli.output import print_table
from broker.simulation.answers.week_checks import CheckRequest, check_week
from broker.simulation.commands.checking import cell_rows, words
from broker.simulation.model.calibration.estimate import Checked
from broker.simulation.model.calibration.site_fit import fit_site
from broker.simulation.model.calibration.week_check import Forecast
from broker.simulation.model.generated_grid import GridParameters, generate
from broker.simulation.model.loop import ClosedLoop, Run
from broker.simulation.model.policies.base import find_policy
from broker.simulation.model.records import OUTCOMES
from broker.simulation.model.scenario import Scenario
from broker.simulation.statements.site_history import site_history
from broker.store.connection.database import Database
from broker.whatif.answers.stored_cases import scratch_database

DAYS = 10
START = datetime(2026, 8, 3, tzinfo=UTC)
SIZE = GridParameters(
    days=float(DAYS), queues=5, cores=1000, nuclei=2, load=0.75, outage_mean_days=0.0, warm_up_s=0.0,
    median_jobs=20.0, spread_jobs=1.0,
)  # fmt: skip
#: The spread of ln(work) of the tasks of a kind.
WORK_S = 0.4
TABLES: Mapping[str, Mapping[str, str]] = {
    "jedi_tasks": {
        "jeditaskid": "bigint", "taskname": "text", "status": "text", "username": "text", "creationdate": "timestamp",
        "modificationtime": "timestamp", "prodsourcelabel": "text", "gshare": "text", "taskpriority": "int",
    },
    "jobsarchived4": {
        "pandaid": "bigint", "jeditaskid": "bigint", "jobstatus": "text", "computingsite": "text",
        "starttime": "timestamp", "endtime": "timestamp", "modificationtime": "timestamp", "actualcorecount": "int",
        "minramcount": "bigint", "attemptnr": "int", "cpuconsumptiontime": "bigint", "prodsourcelabel": "text",
        "gshare": "text", "processingtype": "text", "produsername": "text",
    },
    "schedconfig_json": {"panda_queue": "text", "data": "json", "last_update": "timestamp"},
    "jobs_statuslog": {
        "pandaid": "bigint", "jobstatus": "text", "computingsite": "text", "modificationtime": "timestamp",
    },
    "harvester_workers": {
        "harvesterid": "text", "workerid": "bigint", "status": "text", "computingsite": "text",
        "submittime": "timestamp", "starttime": "timestamp", "endtime": "timestamp", "ncore": "int", "njobs": "int",
        "lastupdate": "timestamp",
    },
}  # fmt: skip


def truth(seed: int, size: GridParameters = SIZE) -> Scenario:
    """Make the hidden grid; speeds, failures and tasks depend on the seed, and tasks of a kind differ."""
    scenario = generate(size, seed)
    random = np.random.default_rng(seed)
    factors = np.exp(WORK_S * random.standard_normal(len(scenario.tasks))).tolist()
    tasks = tuple(
        dataclasses.replace(task, work_factor=factor) for task, factor in zip(scenario.tasks, factors, strict=True)
    )
    return dataclasses.replace(scenario, tasks=tasks)


def rows_of(run: Run) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of PanDA's tables for a simulation: each attempt is a job; jobs that still run are missing."""
    shares = [name for name, _ in run.scenario.shares]
    states = {state.task.number: state for state in run.tasks}
    tasks = [
        (number, f"task {number}", "running", f"user {state.task.user}", at(state.task.arrival_s),
         at(state.task.arrival_s), "user" if state.kind.analysis else "managed", shares[state.task.share],
         int(state.task.priority))
        for number, state in states.items()
    ]  # fmt: skip
    jobs, log, workers, runs = [], [], [], run.runs
    attempts: dict[int, int] = {}
    finished = OUTCOMES.index("finished")
    for row in np.flatnonzero(runs.outcome != OUTCOMES.index("unfinished")).tolist():
        task, state = int(runs.task[row]), states[int(runs.task[row])]
        queue, cores = run.scenario.queues[int(runs.queue[row])].name, int(runs.cores[row])
        begin, end = at(float(runs.start_s[row])), at(float(runs.end_s[row]))
        attempts[task] = attempts.get(task, 0) + 1
        cpu = float(runs.execution_s[row]) * float(runs.efficiency[row]) * cores
        jobs.append(
            (row + 1, task, "finished" if runs.outcome[row] == finished else "failed", queue, begin, end, end, cores,
             round(1000 * state.kind.memory_gb_core * cores), int(attempts[task] > state.task.jobs), round(cpu),
             "user" if state.kind.analysis else "managed", shares[state.task.share], state.kind.processingtype,
             f"user {state.task.user}")
        )  # fmt: skip
        log += [(row + 1, "activated", queue, at(float(runs.assigned_s[row]))), (row + 1, "running", queue, begin)]
        workers.append(("h", row + 1, "finished", queue, begin, begin, end, cores, 1, end))
    queues = [
        (queue.name, json.dumps({"nickname": queue.name, "corepower": queue.corepower}), at(0.0))
        for queue in run.scenario.queues
    ]
    return {
        "schedconfig_json": queues,
        "jedi_tasks": tasks,
        "jobsarchived4": jobs,
        "jobs_statuslog": log,
        "harvester_workers": workers,
    }


def at(time_s: float) -> datetime:
    """Convert a time of the simulation to an instant as PanDA writes it: UTC without a time zone."""
    return (START + timedelta(seconds=time_s)).replace(tzinfo=None)


def store(connection: sa.Connection, database: Database, rows: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
    """Insert the rows into PanDA's tables."""
    for table, table_rows in rows.items():
        columns = TABLES[table]
        values = {name: [row[index] for row in table_rows] for index, name in enumerate(columns)}
        arrays = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in columns.items())
        statement = f"INSERT INTO {{panda}}.{table} ({', '.join(columns)}) SELECT * FROM unnest({arrays})"  # noqa: S608 - our names
        connection.execute(sa.text(database.names.sql(statement)), values)


def compared(seed: int, policy: str, seeds: int, size: GridParameters = SIZE) -> tuple[list[Forecast], Checked]:
    """Calibrate on the days before; return the cells of the last day and the verdict on them."""
    run = ClosedLoop(truth(seed, size), find_policy(policy), seed).run()
    last, end = START + timedelta(days=size.days - 2), START + timedelta(days=size.days - 1)
    with scratch_database("hidden_truth") as database:
        with database.begin() as connection:
            store(connection, database, rows_of(run))
        with database.read_snapshot() as connection:
            fit = fit_site(site_history(connection, database.names, START, last))
            return check_week(connection, database.names, fit, CheckRequest(last, end, policy, seeds))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the cells and the verdict; exit with status 1 if too few lie in their interval."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="panda", help="that places the jobs, of the truth and of the forecast")
    parser.add_argument("--seeds", type=int, default=10, help="of the forecast")
    parser.add_argument("--truth", type=int, default=1, help="seed of the hidden truth")
    options = parser.parse_args(arguments)
    cells, verdict = compared(options.truth, options.policy, options.seeds)
    print_table(*cell_rows(cells))
    print(words(verdict))
    if not verdict.holds:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

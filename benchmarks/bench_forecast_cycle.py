"""What a cycle of the agent ``forecasts``, a roll-out and the look-up of a start take on a large grid.

Queues, chunks waiting for a queue, jobs waiting and running at queues, and past forecasts are synthetic. CPU seconds
are given for the agent and for the database server.
``python -m benchmarks.bench_forecast_cycle [--queues 500] [--tasks 20000] [--jobs 200000]``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from time import perf_counter, process_time
from typing import Any

import sqlalchemy as sa

from agents.forecasts.rolling import RollOutInput, read_ahead, rolled_out
from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from benchmarks.measuring import NOW, folder_argument, loaded, report
from benchmarks.scenario import SHARES, make_scenario
from benchmarks.server_use import ServerWatch, postmaster_of
from broker.forecasts.answers.forecasts import queue_forecasts, task_start
from broker.forecasts.answers.sooner import task_forecast
from broker.forecasts.model.subjects import apart
from broker.simulation.model.real.brokered import shipped_profile
from broker.simulation.model.rolling_out import RollOutSettings
from broker.store.connection.database import Database
from broker.store.query_context import QueryContext
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms

FIRST_JOB = 2_000_000_000
PAST, TASKS_AT_QUEUES = 20_000, 4000
LOOK_UPS = 200
# six of ten jobs at queues are waiting
_JOBS = """
INSERT INTO doma_panda.jobsactive4 (pandaid, jeditaskid, jobdefinitionid, jobstatus, vo, produsername, computingsite,
    gshare, resource_type, currentpriority, prodsourcelabel, processingtype, corecount, minramcount, transformation,
    creationtime, modificationtime, statechangetime, starttime)
SELECT :first + n, t.tasks[1 + n / 50 % cardinality(t.tasks)], 0,
    CASE WHEN n % 10 < 6 THEN 'activated' ELSE 'running' END,
    'atlas', 'prodsys', q.queues[1 + n * 7 % cardinality(q.queues)],
    (CAST(:shares AS text[]))[1 + n / 50 % cardinality(CAST(:shares AS text[]))], 'MCORE',
    100 + n % 11, 'managed', 'simul', 8, 16000, 'run.py',
    CAST(:now AS timestamp) - interval '1 s' * (n % 40000), :now, :now,
    CASE WHEN n % 10 >= 6 THEN CAST(:now AS timestamp) - interval '1 s' * (n % 20000) END
FROM generate_series(0, :jobs - 1) AS n,
    (SELECT array_agg(panda_queue ORDER BY panda_queue) AS queues FROM doma_panda.schedconfig_json) AS q,
    (SELECT array_agg(jeditaskid) AS tasks FROM (
        SELECT jeditaskid FROM doma_panda.jedi_tasks ORDER BY jeditaskid LIMIT :tasks) AS first) AS t"""
_PAST = """
INSERT INTO broker.forecasts (kind, subject, cell, situation, made_at, p10_s, p50_s, p90_s, horizon_s, ahead_s,
    backlog_s, recent_s, age_s, n, unknown, status, status_since, is_newest, is_judged, outcome, waited_s, resolved_at)
SELECT kind, CASE WHEN kind = 'task' THEN (50000000 + n)::text ELSE cell END, cell, 'waiting',
    CAST(:now AS timestamptz) - interval '1 s' * (90000 - n * 4), 600, 3600, 7200, 172800, 60 * (n % 97), 60 * (n % 89),
    60 * (n % 83), 60 * (n % 79), 100, '', 'online', CAST(:now AS timestamptz) - interval '2 days', false, true,
    'started', 60 * (n % 97 + n % 13), :now
FROM generate_series(0, :past - 1) AS n, LATERAL (SELECT (ARRAY['queue', 'task', 'task_kind'])[1 + n % 3] AS kind,
    CASE WHEN n % 3 = 0 THEN 'QUEUE_00' || n % 300 || ' · MC 23' ELSE 'MC 23 · MCORE' END AS cell) AS x"""


def fill(database: Database, jobs: int) -> None:
    """Insert jobs at queues, and past forecasts."""
    now = NOW.replace(tzinfo=None)
    job_values = {"first": FIRST_JOB, "jobs": jobs, "now": now, "tasks": TASKS_AT_QUEUES, "shares": list(SHARES)}
    with database.begin() as connection:
        connection.execute(sa.text("SET LOCAL gridbroker.activates = 'on'"))
        connection.execute(sa.text(_JOBS), job_values)
        connection.execute(sa.text(_PAST), {"now": NOW, "past": PAST})
    with database.autocommit() as connection:
        connection.exec_driver_sql("VACUUM (ANALYZE)")


def cycle(database: Database, name: str, minutes: float, request: CycleRequest) -> dict[str, float]:
    """Run one cycle of an agent; return its counts and stages, and the CPU seconds of agent and server."""
    agent = registry.make(name, {}, ProcessSettings())
    with database.begin() as connection:
        lease = leases.acquire(connection, name, "bench", LeaseTerms(length_s=7200.0, longest_s=7200.0)).lease
    if lease is None:
        raise RuntimeError(f"the lease of {name} is taken")
    run_id = open_run(database, name, lease)
    context = CycleContext(database, NOW + timedelta(minutes=minutes), 1, 3600.0, request, lease=lease, run_id=run_id)
    with ServerWatch(postmaster_of(database)) as server:
        agent_cpu_s, start_s = process_time(), perf_counter()
        record = run_cycle(agent, context)
        agent_cpu_s, wall_s = process_time() - agent_cpu_s, perf_counter() - start_s
    if record.outcome != "done":
        raise RuntimeError(f"the cycle of {name} was {record.outcome}: {record.error}")
    with database.begin() as connection:
        leases.release(connection, lease)
    return {
        **record.counts,
        **record.timings,
        "agent_cpu_s": agent_cpu_s,
        "server_cpu_s": server.cpu_s,
        "wall_s": wall_s,
    }


def rollout(database: Database, hours: float, cycle_s: float) -> dict[str, float]:
    """Measure a roll-out of one seed without limits: its CPU seconds, and the number of its subjects."""
    context = CycleContext(database, NOW + timedelta(minutes=1), 1, 3600.0, CycleRequest())
    rolling = RollOutSettings(hours, 1, cycle_s, 1e9, 1)
    start_s = process_time()
    ahead = read_ahead(context, timedelta(hours=6), shipped_profile("seed"), {}, rolling)
    read_s = process_time() - start_s
    if not isinstance(ahead, RollOutInput):
        raise RuntimeError(ahead)
    result = rolled_out(ahead, process_time)
    total_s = process_time() - start_s
    return {"read_cpu_s": read_s, "rollout_cpu_s": total_s, "hours": result.hours, "tasks": len(result.tasks),
            "lines": len(result.lines), "kinds": len(result.kinds)}  # fmt: skip


def look_ups(database: Database) -> dict[str, float]:
    """Return the milliseconds of the slowest answer, by kind of answer."""
    slowest: dict[str, float] = {}
    with database.read_snapshot() as connection:
        query = QueryContext(connection, database.names, NOW + timedelta(minutes=21))
        newest = sa.text(
            "SELECT subject FROM broker.forecasts WHERE is_newest AND kind = :kind ORDER BY id LIMIT :most"
        )

        def subjects(kind: str) -> list[str]:
            return [str(subject) for subject in connection.execute(newest, {"kind": kind, "most": LOOK_UPS}).scalars()]

        tasks = [int(subject) for subject in subjects("task")]
        actions: dict[str, list[Callable[[], Any]]] = {
            "task": [partial(task_start, query, subject) for subject in tasks],
            "task_sooner": [partial(task_forecast, query, subject) for subject in tasks],
            "queue": [partial(queue_forecasts, query, apart(subject)[0]) for subject in subjects("queue")],
        }
        for name, calls in actions.items():
            durations_ms = []
            for action in calls:
                start_s = perf_counter()
                action()
                durations_ms.append(1000.0 * (perf_counter() - start_s))
            slowest[f"{name}_slowest_ms"] = max(durations_ms, default=0.0)
    return slowest


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--queues", type=int, default=500)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--hours", type=float, default=12.0)
    options = parser.parse_args()
    with loaded(make_scenario(options.tasks, options.queues, 10 * options.tasks, seed=1)) as database:
        fill(database, options.jobs)
        rows = [{"cycle": number, **cycle(database, "forecasts", 10.0 * number, CycleRequest())} for number in (1, 2)]
        print(rows, flush=True)
        slowest_look_ups = look_ups(database)
        print(slowest_look_ups, flush=True)
        with database.begin() as connection:
            task = connection.execute(sa.text("SELECT min(jeditaskid) FROM doma_panda.jedi_tasks")).scalar_one()
        cycle(database, "production_job", 0.0, CycleRequest(task_ids=(int(task),)))
        rollouts = [rollout(database, options.hours, cycle_s) for cycle_s in (600.0,)]
        print(rollouts, flush=True)
    report(options.folder, "forecast_cycle", rows, look_ups=slowest_look_ups, rollouts=rollouts)


if __name__ == "__main__":
    main()

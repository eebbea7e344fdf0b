"""Stored cycles of a day for the what-if benchmark: the agent decides some in sequence, and these are repeated.

Each of these cycles has new work only, and sees the jobs that earlier cycles made: the counts of jobs, workers and
pilots differ from one snapshot to the next, and storages change now and then. This is typical of a busy grid; on a
quiet one, chunks wait from cycle to cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import sqlalchemy as sa

from benchmarks.measuring import NOW, loaded
from benchmarks.scenario import make_scenario
from benchmarks.scenario_work import FIRST_TASK
from broker.decisions.answers.agent_cycle import broker_once
from broker.store.connection.database import Database

SEED = 1
APART = timedelta(seconds=30)
#: How many cycles the agent decides itself; the rest of the day repeats them.
DECIDED = 12
#: The free space of storages changes once in this many cycles.
STORAGES_EVERY = 6

_LATER = "UPDATE {panda}.jedi_tasks SET status = 'defined' WHERE jeditaskid >= :first"
_ARRIVE = """
    UPDATE {panda}.jedi_tasks SET status = 'running'
    WHERE jeditaskid >= :first AND jeditaskid < :stop AND status = 'defined'"""
_END_JOBS = "DELETE FROM {panda}.jobsdefined4 WHERE jeditaskid < :first"
_WORKERS = """
    UPDATE {panda}.harvester_worker_stats
    SET n_workers = greatest(0, n_workers + hashtext(computingsite || :number) % 8)"""
_PILOTS = """
    UPDATE {meta}.sitedata SET getjob = greatest(1, getjob + hashtext(site || :number) % 8) WHERE getjob > 0"""
_STORAGES = """
    UPDATE {panda}.ddm_endpoint
    SET space_free = greatest(100, space_free + hashtext(ddm_endpoint_name || :number) % 50)"""
_ONE_SNAPSHOT_EACH = """
    INSERT INTO broker.snapshots (id, taken_at, engine, sources)
    SELECT id || '-' || :round, taken_at, engine, sources FROM broker.snapshots WHERE id = ANY(:own)"""
_REPEAT = """
    INSERT INTO broker.decisions (agent_run, jeditaskid, datasetid, ramcount, brokerage, outcome, reason, decided_at,
        snapshot, tuning, seed, engine, legend, reasons, candidates, candidate_count, remarks, assigned, notes, work,
        pending_until)
    SELECT agent_run + :runs, jeditaskid, datasetid, ramcount, brokerage, outcome, reason, decided_at - :before,
        snapshot || '-' || :round, tuning, seed, engine, legend, reasons, candidates, candidate_count, remarks,
        assigned, notes, work, pending_until
    FROM broker.decisions WHERE id <= :last ORDER BY id"""


@contextmanager
def real_day(cycles: int, tasks: int, queues: int, jobs: int) -> Iterator[Database]:
    """Yield a database with ``cycles`` cycles of the production job brokerage, half a minute apart, the last one now.

    Args:
        cycles: a multiple of :data:`DECIDED`.
        tasks: the tasks of each cycle, with one chunk each.
        queues: the number of pseudo-queues.
        jobs: how many jobs the chunks of a cycle make together.
    """
    with loaded(make_scenario(DECIDED * tasks, queues, DECIDED * jobs, SEED)) as database:
        _run(database, _LATER, first=FIRST_TASK)
        for number in range(DECIDED):
            _next_cycle(database, number, tasks)
        _repeat(database, cycles // DECIDED - 1)
        yield database


def _next_cycle(database: Database, number: int, tasks: int) -> None:
    """Apply the changes of half a minute, and run the cycle at its end."""
    first = FIRST_TASK + number * tasks
    _run(database, _ARRIVE, first=first, stop=first + tasks)
    _run(database, _END_JOBS, first=first - 2 * tasks)
    changes = (_WORKERS, _PILOTS) if number % STORAGES_EVERY else (_WORKERS, _PILOTS, _STORAGES)
    for change in changes:
        _run(database, change, number=str(number))
    broker_once("production_job", database, NOW - (DECIDED - 1 - number) * APART, SEED, lambda emitted: None)


def _repeat(database: Database, rounds: int) -> None:
    """Repeat the cycles ``rounds`` times at earlier instants; each copy has separate snapshots."""
    with database.begin() as connection:
        snapshot_ids = list(connection.execute(sa.text("SELECT id FROM broker.snapshots")).scalars())
        last = connection.execute(sa.text("SELECT max(id) FROM broker.decisions")).scalar_one()
        runs = connection.execute(sa.text("SELECT max(agent_run) FROM broker.decisions")).scalar_one()
    for number in range(1, rounds + 1):
        with database.begin() as connection:
            connection.execute(sa.text(_ONE_SNAPSHOT_EACH), {"round": str(number), "own": snapshot_ids})
            values = {"runs": number * runs, "before": number * DECIDED * APART, "round": str(number), "last": last}
            connection.execute(sa.text(_REPEAT), values)


def _run(database: Database, statement: str, **values: object) -> None:
    with database.begin() as connection:
        connection.execute(sa.text(statement.format(panda=database.names.panda, meta=database.names.meta)), values)

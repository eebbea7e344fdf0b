"""Stored cycles for the what-if benchmarks: one real cycle, and copies of it at earlier instants."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import sqlalchemy as sa

from benchmarks.measuring import NOW, loaded
from benchmarks.scenario import make_scenario
from benchmarks.scenario_assigning import make_assigning_scenario
from benchmarks.scenario_users import give_to_users
from broker.decisions.answers.agent_cycle import broker_once
from broker.store.connection.database import Database

SEED = 1
#: The number of nuclei in a scenario for the task brokerage.
NUCLEI = 60
_SNAPSHOTS = """
    INSERT INTO broker.snapshots (id, taken_at, engine, sources)
    SELECT id || '-' || n, taken_at - n * interval '1 minute', engine, sources
    FROM broker.snapshots, generate_series(1, :more) AS n"""
_DECISIONS = """
    INSERT INTO broker.decisions (agent_run, jeditaskid, datasetid, ramcount, brokerage, outcome, reason, decided_at,
        snapshot, tuning, seed, engine, legend, reasons, candidates, candidate_count, remarks, assigned, notes, work,
        pending_until)
    SELECT agent_run + n, jeditaskid, datasetid, ramcount, brokerage, outcome, reason,
        decided_at - n * interval '1 minute', snapshot || '-' || n, tuning, seed, engine, legend, reasons, candidates,
        candidate_count, remarks, assigned, notes, work, pending_until
    FROM broker.decisions, generate_series(1, :more) AS n
    ORDER BY n, id"""


@contextmanager
def day_of_cycles(
    cycles: int, tasks: int, queues: int, jobs: int, brokerage: str = "production_job"
) -> Iterator[Database]:
    """Yield a database with ``cycles`` cycles of a brokerage, a minute apart, the last one now.

    With instants hours earlier, the decisions on the snapshot of the scenario would differ, and a replay of the copies
    would not give the stored decisions.
    """
    assigning = brokerage == "production_task"
    scenario = (
        make_assigning_scenario(tasks, NUCLEI, queues, SEED) if assigning else make_scenario(tasks, queues, jobs, SEED)
    )
    with loaded(scenario) as database:
        if brokerage == "analysis_job":
            give_to_users(database)
        broker_once(brokerage, database, NOW, SEED, lambda emitted: None)
        copy_cycles(database, cycles)
        yield database


def copy_cycles(database: Database, cycles: int) -> None:
    """Copy the only stored cycle to earlier instants, a minute apart, until there are ``cycles`` cycles."""
    with database.begin() as connection:
        for statement in (_SNAPSHOTS, _DECISIONS):
            connection.execute(sa.text(statement), {"more": cycles - 1})


def seconds_of(arguments: Sequence[str]) -> tuple[float, float]:
    """Run a command; return its wall seconds as seen by a user, and its total CPU seconds."""
    command = [sys.executable, "-m", "broker.cli.main", *arguments]
    start_s = perf_counter()
    process = os.posix_spawn(command[0], command, os.environ, file_actions=_silent_stdout())
    _, status, usage = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError("it failed; run it by hand: " + " ".join(command))
    return perf_counter() - start_s, usage.ru_utime + usage.ru_stime


def _silent_stdout() -> list[tuple[int, int, str, int, int]]:
    return [(os.POSIX_SPAWN_OPEN, 1, str(Path(os.devnull)), os.O_WRONLY, 0)]

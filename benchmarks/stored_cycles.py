"""Stored cycles for the benchmarks of comparisons: one real cycle, and copies of it at later instants."""

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
#: In a scenario for the task brokerage.
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
    """A database with so many cycles of a brokerage, a minute apart, the last one now.

    Some hours earlier the snapshot of the scenario would be decided on otherwise, and the copies would not say what was
    decided then.
    """
    assigning = brokerage == "production_task"
    made = (
        make_assigning_scenario(tasks, NUCLEI, queues, SEED) if assigning else make_scenario(tasks, queues, jobs, SEED)
    )
    with loaded(made) as database:
        if brokerage == "analysis_job":
            give_to_users(database)
        broker_once(brokerage, database, NOW, SEED, lambda told: None)
        copy_cycles(database, cycles)
        yield database


def copy_cycles(database: Database, cycles: int) -> None:
    """Copy the one stored cycle to earlier instants, a minute apart, until there are so many."""
    with database.begin() as connection:
        for statement in (_SNAPSHOTS, _DECISIONS):
            connection.execute(sa.text(statement), {"more": cycles - 1})


def seconds_of(arguments: Sequence[str]) -> tuple[float, float]:
    """Seconds that somebody who types a command waits for it, and seconds of processor time that it takes in all."""
    command = [sys.executable, "-m", "broker.cli.main", *arguments]
    started = perf_counter()
    process = os.posix_spawn(command[0], command, os.environ, file_actions=_silent())
    _, status, usage = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError("it failed; run it by hand: " + " ".join(command))
    return perf_counter() - started, usage.ru_utime + usage.ru_stime


def _silent() -> list[tuple[int, int, str, int, int]]:
    return [(os.POSIX_SPAWN_OPEN, 1, str(Path(os.devnull)), os.O_WRONLY, 0)]

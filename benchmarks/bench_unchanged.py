"""Room of a day of unchanged chunks alongside PanDA, where every cycle decides anew and only decisions are written.

The decisions are those of one real cycle of the production job brokerage at 500 pseudo-queues, with work and
explanations, copied to other tasks until there are ``--chunks``. A day is stored twice, each in a database of its own,
with few and with more cycles; what a cycle adds is carried on to one every 30 s. Room is that of the rows with their
indexes, after VACUUM FULL, as what replaced rows take is up to the server.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta
from time import process_time

import sqlalchemy as sa

from benchmarks.measuring import NOW, folder_argument, loaded, report
from benchmarks.scenario import make_scenario
from broker.decisions.answers.agent_cycle import broker_once
from broker.domain.decisions import DecisionRecord, Origin
from broker.store.connection.database import Database
from broker.store.decisions import decision_days, decision_writing
from broker.store.decisions.stored_cycles import stored_cycles

SEED, TASKS, QUEUES, JOBS = 1, 1000, 500, 20_000
CHUNKS, BATCH = 10_000, 1000
#: Cycles of the two days that are stored, and of a real one.
FEW, MORE, DAY = 24, 96, 2880
TABLES = ("decision_repeats", "chunk_states", "queue_counts", "queue_hours", "reason_counts", "waiting_counts",
          "decision_legends")  # fmt: skip
_PARTS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'broker.decisions'::regclass"


def decided(database: Database, chunks: int) -> tuple[Origin, list[DecisionRecord]]:
    """A cycle as it is recorded alongside PanDA, with as many chunks as are asked for."""
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE broker.installation SET mode = 'beside'")
    broker_once("production_job", database, NOW, SEED, lambda told: None)
    with database.read_snapshot() as connection:
        (cycle,) = stored_cycles(connection)
    found = [one.record for one in cycle.decisions]
    records = []
    for number in range(chunks):
        copy, at = divmod(number, len(found))
        own = found[at].decision
        decision = dataclasses.replace(own, jeditaskid=own.jeditaskid + 1_000_000 * copy)
        records.append(dataclasses.replace(found[at], decision=decision))
    return dataclasses.replace(cycle.origin, only_recorded=True), records


def store_day(
    database: Database, origin: Origin, records: Sequence[DecisionRecord], begin: datetime, cycles: int
) -> float:
    """Store the same decisions in so many cycles over a day; CPU seconds of this process a cycle."""
    with database.begin() as connection:
        decision_days.make(connection, begin, 1)
    started = process_time()
    for number in range(cycles):
        at = begin + number * timedelta(days=1) / cycles
        own = dataclasses.replace(origin, agent_run=number + 2, decided_at=at)
        waits = [dataclasses.replace(one, pending_until=at + timedelta(hours=1)) for one in records]
        for first in range(0, len(records), BATCH):
            with database.begin() as connection:
                decision_writing.save(Database.raw(connection), own, waits[first : first + BATCH])
    return (process_time() - started) / cycles


def room(database: Database, *, of_rows: bool) -> int:
    """Bytes of all that decisions take, with indexes."""
    with database.autocommit() as connection:
        tables = [*connection.execute(sa.text(_PARTS)).scalars(), *(f"broker.{name}" for name in TABLES)]
        for table in tables if of_rows else ():
            connection.exec_driver_sql(f"VACUUM FULL {table}")
        sizes = (connection.scalar(sa.text(f"SELECT pg_total_relation_size('{table}')")) for table in tables)
        return sum(int(size or 0) for size in sizes)


def measured(chunks: int, cycles: int) -> dict[str, float]:
    """A day of so many cycles in a database of its own."""
    with loaded(make_scenario(TASKS, QUEUES, JOBS, seed=SEED)) as database:
        origin, records = decided(database, chunks)
        before = room(database, of_rows=True)
        cpu_s = store_day(database, origin, records, NOW.replace(hour=0) + timedelta(days=1), cycles)
        as_it_is, after = room(database, of_rows=False), room(database, of_rows=True)
    found = {"mb_of_rows": (after - before) / 1e6, "mb_as_it_is": (as_it_is - before) / 1e6}
    return {"chunks": chunks, "cycles": cycles, **found, "cpu_s_a_cycle": cpu_s}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--chunks", type=int, default=CHUNKS, help="chunks of a cycle")
    asked = parser.parse_args()
    few, more = (measured(asked.chunks, cycles) for cycles in (FEW, MORE))
    of_a_cycle = (more["mb_of_rows"] - few["mb_of_rows"]) / (MORE - FEW)
    whole = more["mb_of_rows"] + (DAY - MORE) * of_a_cycle
    report(
        asked.folder,
        "unchanged",
        [few, more],
        target="mb_of_a_day < 100",
        kb_of_a_cycle=1000 * of_a_cycle,
        mb_of_a_day=whole,
    )
    print(f"a cycle adds {1000 * of_a_cycle:.1f} kB; a day of {DAY} cycles takes {whole:.1f} MB")


if __name__ == "__main__":
    main()

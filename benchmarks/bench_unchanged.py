"""Disk space of a day of unchanged chunks alongside PanDA, where every cycle decides anew and writes only decisions.

The decisions are those of one real cycle of the production job brokerage at 500 pseudo-queues, with work and
explanations, copied to other tasks until there are ``--chunks``. A day is stored twice, in separate databases, with few
and with more cycles; the space per cycle is extrapolated to one cycle every 30 s. The space is that of the rows with
their indexes after VACUUM FULL, because the space of replaced rows depends on the server.
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
#: Cycles of the two stored days, and of a real day.
FEW, MORE, DAY = 24, 96, 2880
TABLES = ("decision_repeats", "chunk_states", "queue_counts", "queue_hours", "reason_counts", "waiting_counts",
          "decision_legends")  # fmt: skip
_PARTS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'broker.decisions'::regclass"


def make_records(database: Database, chunks: int) -> tuple[Origin, list[DecisionRecord]]:
    """Make the records of a cycle alongside PanDA, with ``chunks`` chunks."""
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE broker.installation SET mode = 'beside'")
    broker_once("production_job", database, NOW, SEED, lambda emitted: None)
    with database.read_snapshot() as connection:
        (cycle,) = stored_cycles(connection)
    cycle_records = [stored_decision.record for stored_decision in cycle.decisions]
    records = []
    for number in range(chunks):
        copy, index = divmod(number, len(cycle_records))
        original = cycle_records[index].decision
        decision = dataclasses.replace(original, jeditaskid=original.jeditaskid + 1_000_000 * copy)
        records.append(dataclasses.replace(cycle_records[index], decision=decision))
    return dataclasses.replace(cycle.origin, only_recorded=True), records


def store_day(
    database: Database, origin: Origin, records: Sequence[DecisionRecord], begin: datetime, cycles: int
) -> float:
    """Store the same decisions in ``cycles`` cycles over a day; return the CPU seconds of this process per cycle."""
    with database.begin() as connection:
        decision_days.make(connection, begin, 1)
    start_s = process_time()
    for number in range(cycles):
        decided_at = begin + number * timedelta(days=1) / cycles
        cycle_origin = dataclasses.replace(origin, agent_run=number + 2, decided_at=decided_at)
        waiting = [dataclasses.replace(record, pending_until=decided_at + timedelta(hours=1)) for record in records]
        for first in range(0, len(records), BATCH):
            with database.begin() as connection:
                decision_writing.save(Database.raw(connection), cycle_origin, waiting[first : first + BATCH])
    return (process_time() - start_s) / cycles


def room(database: Database, *, of_rows: bool) -> int:
    """Return the bytes of all tables of decisions, with indexes."""
    with database.autocommit() as connection:
        tables = [*connection.execute(sa.text(_PARTS)).scalars(), *(f"broker.{name}" for name in TABLES)]
        for table in tables if of_rows else ():
            connection.exec_driver_sql(f"VACUUM FULL {table}")
        sizes = (connection.scalar(sa.text(f"SELECT pg_total_relation_size('{table}')")) for table in tables)
        return sum(int(size or 0) for size in sizes)


def measure_day(chunks: int, cycles: int) -> dict[str, float]:
    """Measure a day of ``cycles`` cycles in a separate database."""
    with loaded(make_scenario(TASKS, QUEUES, JOBS, seed=SEED)) as database:
        origin, records = make_records(database, chunks)
        bytes_before = room(database, of_rows=True)
        cpu_s = store_day(database, origin, records, NOW.replace(hour=0) + timedelta(days=1), cycles)
        bytes_as_is, bytes_after = room(database, of_rows=False), room(database, of_rows=True)
    sizes = {"mb_of_rows": (bytes_after - bytes_before) / 1e6, "mb_as_it_is": (bytes_as_is - bytes_before) / 1e6}
    return {"chunks": chunks, "cycles": cycles, **sizes, "cpu_s_a_cycle": cpu_s}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--chunks", type=int, default=CHUNKS, help="chunks of a cycle")
    options = parser.parse_args()
    few, more = (measure_day(options.chunks, cycles) for cycles in (FEW, MORE))
    mb_per_cycle = (more["mb_of_rows"] - few["mb_of_rows"]) / (MORE - FEW)
    mb_of_a_day = more["mb_of_rows"] + (DAY - MORE) * mb_per_cycle
    report(
        options.folder,
        "unchanged",
        [few, more],
        target="mb_of_a_day < 100",
        kb_of_a_cycle=1000 * mb_per_cycle,
        mb_of_a_day=mb_of_a_day,
    )
    print(f"a cycle adds {1000 * mb_per_cycle:.1f} kB; a day of {DAY} cycles takes {mb_of_a_day:.1f} MB")


if __name__ == "__main__":
    main()

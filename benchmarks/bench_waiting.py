"""What it takes to decide waiting chunks again in each cycle when none of them gets jobs.

Every task of the scenario needs more memory than any pseudo-queue has. After the first cycle all chunks wait, and later
cycles decide them again. The rows that a cycle wrote are counted by the transaction of their last version.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import perf_counter, process_time
from typing import Any

import sqlalchemy as sa

from agents.service import configuration, registry
from agents.service.base import CycleRequest
from agents.service.configuration import ProcessSettings
from benchmarks.measuring import NOW, folder_argument, loaded, report
from benchmarks.scenario import make_scenario
from broker.decisions.answers.agent_cycle import JOB_AGENT, run_leased
from broker.store.connection.database import Database

CHUNKS, QUEUES, CYCLES = 10_000, 500, 5
#: More memory per core than any queue has, in MB.
TOO_MUCH_MB = 1_000_000
_TABLES = """
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND n.nspname IN ('broker', 'doma_panda')"""


@dataclass(frozen=True)
class Server:
    """The position of the server before a cycle.

    Attributes:
        transaction: the number of the next transaction.
        log: the position in the write-ahead log.
    """

    transaction: int
    log: str

    @classmethod
    def of(cls, database: Database) -> Server:
        """Read the current position."""
        with database.autocommit() as connection:
            row = connection.execute(sa.text("SELECT pg_current_xact_id()::text, pg_current_wal_insert_lsn()::text"))
            transaction, log = row.one()
        return cls(int(transaction), str(log))

    def written(self, database: Database) -> tuple[dict[str, int], float]:
        """Return the rows written since then by table, and the MB of the write-ahead log."""
        with database.autocommit() as connection:
            size = connection.scalar(sa.text("SELECT pg_current_wal_insert_lsn() - CAST(:log AS pg_lsn)"), vars(self))
            counts = {}
            for table in connection.execute(sa.text(_TABLES)).scalars().all():
                query = f"SELECT count(*) FROM {table} WHERE xmin::text::bigint >= :transaction"  # noqa: S608 - a name
                counts[table] = int(connection.scalar(sa.text(query), vars(self)) or 0)
        return {name: count for name, count in counts.items() if count}, float(size or 0) / 1e6


def cycle(database: Database, profile: str, now: datetime, seed: int) -> dict[str, Any]:
    """Run one cycle of the production job brokerage; return its times and what it wrote."""
    agents = configuration.load(configuration.config_file("agents.yaml", None), registry.NAMES)
    agent = registry.make(JOB_AGENT, {}, ProcessSettings(profile=profile))
    server_before, start_s, cpu_start_s = Server.of(database), perf_counter(), process_time()
    record = run_leased(agent, agents, database, now, seed, CycleRequest())
    elapsed = perf_counter() - start_s, process_time() - cpu_start_s
    rows, log_mb = server_before.written(database)
    tasks = rows.get("doma_panda.jedi_tasks", 0) + rows.get("doma_panda.tasks_statuslog", 0)
    decisions = sum(count for table, count in rows.items() if table.startswith("broker.decisions"))
    states, all_rows = rows.get("broker.chunk_states", 0), sum(rows.values())
    figures = {"rows_of_tasks": tasks, "decisions": decisions, "states": states, "all_rows": all_rows, "log_mb": log_mb}
    return {"chunks": record.counts["chunks"], "s": elapsed[0], "broker_cpu_s": elapsed[1], **figures}


def main() -> None:
    """Measure both profiles, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--chunks", type=int, default=CHUNKS, help="chunks that wait")
    options, rows = parser.parse_args(), []
    for profile, minutes in (("demo", 1), ("seed", 61)):
        with loaded(make_scenario(options.chunks, QUEUES, 5 * options.chunks, seed=1)) as database:
            with database.begin() as connection:
                query = "UPDATE doma_panda.jedi_tasks SET ramcount = :most, ramunit = 'MBPerCore'"
                connection.execute(sa.text(query), {"most": TOO_MUCH_MB})
            for number in range(CYCLES):
                figures = cycle(database, profile, NOW + number * timedelta(minutes=minutes), number)
                rows.append({"profile": profile, "every_min": minutes, "cycle": number + 1, **figures})
    report(options.folder, "waiting", rows, seconds="wall clock, and CPU time of the broker")


if __name__ == "__main__":
    main()

"""How long ``broker what-if`` takes over the cycles of 24 hours, from the command line to its last line.

Two changes: one by which few decisions differ, and one by which most do, so that nearly all jobs are cut again. The
cycles are copies of one: work that did not change, and sources of snapshots, are unpacked once in each process, and
nothing that was judged is kept.
"""

from __future__ import annotations

from typing import Any

from benchmarks.measuring import NOW, report
from benchmarks.stored_cycles import day_of_cycles, seconds_of
from broker.store.connection.database import Database

CYCLES, TASKS, QUEUES, JOBS = 144, 1000, 500, 3000
PROCESSES = 2
CHANGES = {"few differ": "MIN_WEIGHT_managed=0.7", "most differ": "NQUEUED_SAT_CAP=20"}


def measure(database: Database, cycles: int, what: str, change: str) -> dict[str, Any]:
    """Compare all cycles with one change."""
    arguments = ["--db", database.url, "what-if", "--set", change, "--last", "24h", "--at", NOW.isoformat()]
    seconds, processor_s = seconds_of([*arguments, "--processes", str(PROCESSES), "--json"])
    return {
        "change": what,
        "cycles": cycles,
        "tasks": TASKS,
        "pseudo_queues": QUEUES,
        "processes": PROCESSES,
        "seconds": seconds,
        "processor_s": processor_s,
        "ms_per_cycle": seconds / cycles * 1000,
    }


def main() -> None:
    """Measure and report."""
    with day_of_cycles(CYCLES, TASKS, QUEUES, JOBS) as database:
        rows = [measure(database, CYCLES, what, change) for what, change in CHANGES.items()]
    report("what_if", rows, target="seconds < 30 at 144 x 1000 x 500 on two cores")


if __name__ == "__main__":
    main()

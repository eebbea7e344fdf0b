"""How much faster ``broker sweep`` is with two processes than with one, from the start of the command to its end."""

from __future__ import annotations

from typing import Any

from benchmarks.measuring import NOW, asked_folder, report
from benchmarks.stored_cycles import day_of_cycles, seconds_of
from broker.store.connection.database import Database

CYCLES, TASKS, QUEUES, JOBS = 24, 1000, 500, 3000
RANGE, POINTS = "NQUEUED_SAT_CAP=20:140:40", 4
PROCESSES = (1, 2)


def measure(database: Database, processes: int) -> dict[str, Any]:
    """Measure a sweep with ``processes`` processes."""
    arguments = ["--db", database.url, "sweep", RANGE, "--last", "24h", "--at", NOW.isoformat(), "--json"]
    seconds, processor_s = seconds_of([*arguments, "--processes", str(processes)])
    facts = {"processes": processes, "cycles": CYCLES, "points": POINTS, "tasks": TASKS}
    return {**facts, "seconds": seconds, "processor_s": processor_s}


def main() -> None:
    """Measure and report."""
    folder = asked_folder()
    with day_of_cycles(CYCLES, TASKS, QUEUES, JOBS) as database:
        rows = [measure(database, processes) for processes in PROCESSES]
    for row in rows:
        row["speed_up"] = rows[0]["seconds"] / row["seconds"]
    report(folder, "sweep", rows, target="speed_up >= 1.7 on two processes")


if __name__ == "__main__":
    main()

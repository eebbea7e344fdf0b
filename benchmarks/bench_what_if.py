"""How long ``broker what-if`` takes over the cycles of 24 hours, from the start of the command to its end.

There are two changes: one where few decisions differ, and one where most do, so that nearly all jobs are cut again. The
cycles are copies of one cycle: unchanged work and sources of snapshots are unpacked once per process, and no judgement
is cached.

``--brokerage`` takes the cycles of a brokerage other than that of production jobs.

``--day`` takes the cycles of a busy day instead: 2,880 cycles half a minute apart, each with new work and different
counts of jobs, see :mod:`benchmarks.real_day`; a number after it sets how many. Making them takes some minutes and some
4 GB of disk.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.measuring import NOW, folder_argument, report
from benchmarks.real_day import DECIDED, real_day
from benchmarks.stored_cycles import day_of_cycles, seconds_of
from broker.store.connection.database import Database

CYCLES, TASKS, QUEUES, JOBS = 144, 1000, 500, 3000
DAY = 2880
PROCESSES = 2
#: For each brokerage, a change where few decisions differ and one where most do.
CHANGES = {
    "production_job": {"few differ": "MIN_WEIGHT_managed=0.7", "most differ": "NQUEUED_SAT_CAP=20"},
    "analysis_job": {"few differ": "OVERLOAD_RATIO_OFFSET=0.1", "most differ": "MAX_DISKIO_DEFAULT=1"},
    "production_task": {"few differ": "INPUT_SIZE_FRACTION=0.9", "most differ": "NQUEUED_NUC_CAP=0"},
}


def measure(database: Database, cycles: int, label: str, change: str) -> dict[str, Any]:
    """Measure the comparison of all cycles with one change."""
    arguments = ["--db", database.url, "what-if", "--set", change, "--last", "24h", "--at", NOW.isoformat()]
    seconds, processor_s = seconds_of([*arguments, "--processes", str(PROCESSES), "--json"])
    return {
        "change": label,
        "cycles": cycles,
        "tasks": TASKS,
        "pseudo_queues": QUEUES,
        "processes": PROCESSES,
        "seconds": seconds,
        "processor_s": processor_s,
        "ms_per_cycle": seconds / cycles * 1000,
        "processor_ms_per_cycle": processor_s / cycles * 1000,
    }


def _parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    folder_argument(parser)
    parser.add_argument("--brokerage", choices=CHANGES, default="production_job", help="whose cycles they are")
    parser.add_argument("--day", type=int, nargs="?", const=DAY, metavar="CYCLES", help="cycles of a busy day")
    return parser.parse_args(arguments)


def main() -> None:
    """Measure and report."""
    options = _parse_arguments(sys.argv[1:])
    if options.day is None:
        with day_of_cycles(CYCLES, TASKS, QUEUES, JOBS, options.brokerage) as database:
            rows = [measure(database, CYCLES, label, change) for label, change in CHANGES[options.brokerage].items()]
        name = "what_if" if options.brokerage == "production_job" else f"what_if_{options.brokerage}"
        report(options.folder, name, rows, target="seconds < 30 at 144 x 1000 x 500 on two cores")
        return
    cycles = max(1, options.day // DECIDED) * DECIDED
    with real_day(cycles, TASKS, QUEUES, JOBS) as database:
        rows = [measure(database, cycles, label, change) for label, change in CHANGES["production_job"].items()]
    report(options.folder, "what_if_day", rows, target="seconds < 600 at 2880 x 1000 x 500 on two cores")


if __name__ == "__main__":
    main()

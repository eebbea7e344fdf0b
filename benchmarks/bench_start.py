"""How long commands take to start, as ratios: to ``python -c pass``, and to importing numpy, sqlalchemy and psycopg.

CPU seconds of whole processes, the least of several runs, so that a busy machine does not decide.
"""

from __future__ import annotations

import resource
import subprocess
import sys

RUNS = 5
PASS = ("-c", "pass")
IMPORTS = ("-c", "import numpy, sqlalchemy, psycopg")
ENTRY = ("-m", "broker.cli.entry")
LIMITS = {"--version": (PASS, 5.0), "--help": (PASS, 10.0)}


def cpu_s(*arguments: str) -> float:
    """The least CPU seconds of a Python process with these arguments."""
    return min(_once(arguments) for _ in range(RUNS))


def _once(arguments: tuple[str, ...]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    base = {PASS: cpu_s(*PASS), IMPORTS: cpu_s(*IMPORTS)}
    rows = []
    for words, (against, limit) in LIMITS.items():
        took = cpu_s(*ENTRY, words)
        rows.append((f"broker {words}", took, took / base[against], limit, took / base[against] < limit))
    took = cpu_s("-c", "import broker.cli.decisions.explain, broker.cli.main")
    rows.append(("imports of broker explain", took, took / base[IMPORTS], 2.0, took / base[IMPORTS] < 2.0))
    for name, seconds, ratio, limit, held in rows:
        print(f"{name}: {seconds:.3f} s of CPU, ratio {ratio:.1f}, limit {limit:g}: {'held' if held else 'NOT held'}")


if __name__ == "__main__":
    main()

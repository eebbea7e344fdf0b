"""How long commands take to start, as ratios: to ``python -c pass``, and to importing what they cannot do without.

CPU seconds of whole processes, the least of several runs, so that a busy machine does not decide; of ``broker api``
until it answers, the seconds on the clock too.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.schema.migrate import upgrade

RUNS = 5
PASS = ("-c", "pass")
IMPORTS = ("-c", "import numpy, sqlalchemy, psycopg")
WEB_IMPORTS = ("-c", "import fastapi, sqlalchemy")
_SAID = "API: "
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


def clock_s(*arguments: str) -> float:
    """The least seconds on the clock of a Python process with these arguments."""
    found = []
    for _ in range(RUNS):
        began = time.perf_counter()
        _once(arguments)
        found.append(time.perf_counter() - began)
    return min(found)


def api_s() -> tuple[float, float]:
    """The least seconds on the clock and of CPU until ``broker api`` answers."""
    with tempfile.TemporaryDirectory(prefix="gridbroker-bench-") as folder:
        server = EmbeddedServer(Path(folder))
        with Database(server.start(), on_close=server.stop) as database:
            upgrade(database)
            found = [_api_once(database.url, folder) for _ in range(RUNS)]
    return min(clock for clock, _ in found), min(cpu for _, cpu in found)


def _api_once(url: str, home: str) -> tuple[float, float]:
    """Seconds on the clock and of CPU until it has said where it listens and then answered."""
    command = [sys.executable, *ENTRY, "--db", url, "api", "--port", "0"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "BROKER_HOME": home})
    try:
        with urllib.request.urlopen(f"{_address(process)}/health/live") as answer:  # noqa: S310 - of this machine
            answer.read()
        clock = time.perf_counter() - began
        times = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    finally:
        process.terminate()
        process.communicate()
    return clock, (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def _address(process: subprocess.Popen[str]) -> str:
    for line in process.stderr or ():
        if line.startswith(_SAID):
            return line.removeprefix(_SAID).split("/api/v1")[0]
    raise SystemExit("broker api ended before it listened")


def main() -> None:
    base = {PASS: cpu_s(*PASS), IMPORTS: cpu_s(*IMPORTS)}
    rows = []
    for words, (against, limit) in LIMITS.items():
        took = cpu_s(*ENTRY, words)
        rows.append((f"broker {words}, by CPU", took, took / base[against], limit, took / base[against] < limit))
    took = cpu_s("-c", "import broker.decisions.commands.explain, broker.cli.main")
    rows.append(("imports of broker explain, by CPU", took, took / base[IMPORTS], 2.0, took / base[IMPORTS] < 2.0))
    clock, cpu = api_s()
    for kind, took, base_s in (("CPU", cpu, cpu_s(*WEB_IMPORTS)), ("the clock", clock, clock_s(*WEB_IMPORTS))):
        rows.append((f"broker api until it answers, by {kind}", took, took / base_s, 4.0, took / base_s < 4.0))
    for name, seconds, ratio, limit, held in rows:
        print(f"{name}: {seconds:.3f} s, ratio {ratio:.1f}, limit {limit:g}: {'held' if held else 'NOT held'}")


if __name__ == "__main__":
    main()

"""How long commands take to start, relative to ``python -c pass`` and to the imports that they cannot avoid.

The figures are CPU seconds of whole processes, the minimum of several runs, so that other load on the machine does not
matter. For ``broker api`` until it answers, wall seconds are given too.
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
_ADDRESS_PREFIX = "API: "
ENTRY = ("-m", "broker.cli.entry")
LIMITS = {"--version": (PASS, 5.0), "--help": (PASS, 10.0)}


def cpu_s(*arguments: str) -> float:
    """Return the minimum CPU seconds of a Python process with these arguments."""
    return min(_once(arguments) for _ in range(RUNS))


def _once(arguments: tuple[str, ...]) -> float:
    usage_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    usage_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage_after.ru_utime + usage_after.ru_stime - usage_before.ru_utime - usage_before.ru_stime


def clock_s(*arguments: str) -> float:
    """Return the minimum wall seconds of a Python process with these arguments."""
    durations_s = []
    for _ in range(RUNS):
        begin_s = time.perf_counter()
        _once(arguments)
        durations_s.append(time.perf_counter() - begin_s)
    return min(durations_s)


def api_s() -> tuple[float, float]:
    """Return the minimum wall and CPU seconds until ``broker api`` answers."""
    with tempfile.TemporaryDirectory(prefix="gridbroker-bench-") as folder:
        server = EmbeddedServer(Path(folder))
        with Database(server.start(), on_close=server.stop) as database:
            upgrade(database)
            measurements = [_api_once(database.url, folder) for _ in range(RUNS)]
    return min(clock for clock, _ in measurements), min(cpu for _, cpu in measurements)


def _api_once(url: str, home: str) -> tuple[float, float]:
    """Return the wall and CPU seconds until the server has printed its address and answered a request."""
    command = [sys.executable, *ENTRY, "--db", url, "api", "--port", "0"]
    begin_s = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "BROKER_HOME": home})
    try:
        with urllib.request.urlopen(f"{_address(process)}/health/live") as answer:  # noqa: S310 - of this machine
            answer.read()
        wall_s = time.perf_counter() - begin_s
        times = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    finally:
        process.terminate()
        process.communicate()
    return wall_s, (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def _address(process: subprocess.Popen[str]) -> str:
    for line in process.stderr or ():
        if line.startswith(_ADDRESS_PREFIX):
            return line.removeprefix(_ADDRESS_PREFIX).split("/api/v1")[0]
    raise SystemExit("broker api ended before it listened")


def main() -> None:
    base = {PASS: cpu_s(*PASS), IMPORTS: cpu_s(*IMPORTS)}
    rows = []
    for words, (reference, limit) in LIMITS.items():
        time_s = cpu_s(*ENTRY, words)
        rows.append(
            (f"broker {words}, by CPU", time_s, time_s / base[reference], limit, time_s / base[reference] < limit)
        )
    time_s = cpu_s("-c", "import broker.decisions.commands.explain, broker.cli.main")
    rows.append(
        ("imports of broker explain, by CPU", time_s, time_s / base[IMPORTS], 2.0, time_s / base[IMPORTS] < 2.0)
    )
    api_clock_s, api_cpu_s = api_s()
    for kind, time_s, base_s in (
        ("CPU", api_cpu_s, cpu_s(*WEB_IMPORTS)),
        ("the clock", api_clock_s, clock_s(*WEB_IMPORTS)),
    ):
        rows.append((f"broker api until it answers, by {kind}", time_s, time_s / base_s, 4.0, time_s / base_s < 4.0))
    for name, seconds, ratio, limit, is_held in rows:
        print(f"{name}: {seconds:.3f} s, ratio {ratio:.1f}, limit {limit:g}: {'held' if is_held else 'NOT held'}")


if __name__ == "__main__":
    main()

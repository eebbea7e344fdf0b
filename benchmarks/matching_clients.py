"""The clients of the matching benchmark: processes that call the matcher, and processes that use the API."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import psycopg

from benchmarks.plain_client import PlainClient
from benchmarks.server_use import ServerWatch, postmaster_of
from broker.api.server import ListenOptions
from broker.api.workers import workers_serving
from broker.pilots.model.matcher import Pilot
from broker.pilots.statements.job_match import Matcher
from broker.pilots.statements.matches import Match
from broker.store.connection.database import Database
from broker.store.connection.tables import Names

Pilots = list[tuple[Pilot, dict[str, Any]]]
_NO_RATE = "rate: {pilot: {per_s: 1000000, burst: 1000000}}\n"
_context = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Span:
    """How long clients send requests, in seconds: ``warm_s`` uncounted, then ``counts_s`` counted."""

    warm_s: float
    counts_s: float

    @property
    def ends_s(self) -> float:
        """The end, counted from the beginning."""
        return self.warm_s + self.counts_s


def ask_directly(
    database: Database, folder: Path, pilots: Pilots, matchers: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Measure processes that call the matcher as fast as they can; ``options``: those of the benchmark.

    The first ``warm`` seconds do not count: processes read task queues and see new nodes, and PostgreSQL reads pages.
    """
    files, span = _parts(folder, "direct", pilots, matchers), Span(options.warm, options.seconds)
    tasks = [(_match, (database.url, span, file)) for file in files]
    with ServerWatch(postmaster_of(database)) as watch:
        results = _run(tasks, files, span)
    return _figures("direct", results, span, watch)


def ask_over_http(database: Database, folder: Path, pilots: Pilots, options: argparse.Namespace) -> dict[str, Any]:
    """Measure HTTP clients at a fixed rate, and what the processes of the API took."""
    config = folder / "config"
    config.mkdir()
    (config / "api.yaml").write_text(_NO_RATE, encoding="utf-8")
    files = _parts(folder, "http", pilots, options.clients)
    with workers_serving(database, ListenOptions(port=0), options.workers, home=folder, folder=config) as (
        url,
        workers,
    ):
        token = (folder / "api-token").read_text(encoding="utf-8").strip()
        every_s = options.clients / options.rate
        span = Span(options.warm, options.seconds)
        tasks = [(_ask, (url, token, number / options.rate, every_s, span, file)) for number, file in enumerate(files)]
        cpu_before_s = sum(map(_cpu_of_threads, workers.processes))
        with ServerWatch(postmaster_of(database)) as watch:
            results = _run(tasks, files, span)
        workers_s = sum(map(_cpu_of_threads, workers.processes)) - cpu_before_s
        workers_mb = sum(map(_resident_mb, workers.processes))
    figures = _figures("api", results, span, watch)
    api_figures = {"workers": options.workers, "workers_mb": workers_mb, "rate": options.rate}
    return figures | api_figures | {"workers_cpu_ms": 1000 * workers_s / _all_jobs(results, span)}


def _parts(folder: Path, kind: str, pilots: Pilots, clients: int) -> list[Path]:
    """Return the files for the results of the clients, and write the pilots of each client beside them."""
    files = [folder / f"{kind}{number}.json" for number in range(clients)]
    for number, file in enumerate(files):
        file.with_suffix(".pilots").write_bytes(pickle.dumps(pilots[number::clients]))
    return files


def _pilots(file: Path) -> Pilots:
    pilots: Pilots = pickle.loads(file.with_suffix(".pilots").read_bytes())  # noqa: S301 - ours
    return pilots


def _run(tasks: list[tuple[Callable[..., None], tuple[Any, ...]]], files: list[Path], span: Span) -> list[Any]:
    """Run a process for each task; the first is killed half-way. Return the results of the others."""
    start = _context.Barrier(len(tasks) + 1)
    processes = [_context.Process(target=run, args=(number, *args, start)) for number, (run, args) in enumerate(tasks)]
    for process in processes:
        process.start()
    start.wait()
    processes[0].join(span.warm_s + span.counts_s / 2)
    processes[0].kill()
    for process in processes:
        process.join()
    return [json.loads(file.read_text(encoding="utf-8")) for file in files[1:]]


def _all_jobs(results: list[Any], span: Span) -> float:
    """Return the jobs since the beginning, with an estimate for the client that was killed after half the time."""
    part_of_killed = (span.warm_s + span.counts_s / 2) / span.ends_s
    return sum(len(result["jobs"]) for result in results) * (len(results) + part_of_killed) / len(results)


def _figures(kind: str, results: list[Any], span: Span, watch: ServerWatch) -> dict[str, Any]:
    """Return rates and times of the surviving clients in the counted time; the killed client lived for half of it."""
    jobs = [job for result in results for job in result["jobs"]]
    if len(jobs) != len(set(jobs)):
        raise SystemExit(f"{kind}: {len(jobs) - len(set(jobs))} jobs were given twice")
    times_ms = np.array([ms for result in results for ms in result["ms"]])
    counted_matches = sum(result["counted"] for result in results)
    return {
        f"{kind}_matches": len(jobs),
        f"{kind}_per_s": counted_matches / span.counts_s * (len(results) + 0.5) / len(results),
        f"{kind}_misses": sum(result["misses"] for result in results),
        f"{kind}_median_ms": float(np.median(times_ms)),
        f"{kind}_p99_ms": float(np.percentile(times_ms, 99)),
        f"{kind}_max_ms": float(times_ms.max()),
        f"{kind}_clients_cpu_ms": 1000 * sum(result["cpu_s"] for result in results) / max(len(jobs), 1),
        f"{kind}_server_cpu_ms": 1000 * watch.cpu_s / max(_all_jobs(results, span), 1),
        f"{kind}_server_mb": watch.own_mb + watch.shared_mb,
    }


class _Results:
    """The results of one client, with times of the counted requests."""

    def __init__(self) -> None:
        self.jobs: list[int] = []
        self._ms: list[float] = []
        self._counted = self._misses = 0
        self._began_s = process_time()

    def add(self, job: int | None, ms: float, *, counts: bool) -> None:
        if job is not None:
            self.jobs.append(job)
        if counts:
            self._ms.append(ms)
            self._counted += job is not None
            self._misses += job is None

    def write(self, file: Path) -> None:
        document = {"jobs": self.jobs, "ms": self._ms, "counted": self._counted, "misses": self._misses}
        document["cpu_s"] = process_time() - self._began_s
        file.write_text(json.dumps(document), encoding="utf-8")


def _match(number: int, url: str, span: Span, file: Path, start: Any) -> None:
    """Run a client that calls the matcher; each request is recorded under its number, as over HTTP."""
    generator, results, pilots = np.random.default_rng(number), _Results(), _pilots(file)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        matcher = Matcher(connection, Names(), generator)
        start.wait()
        begin_s, request_number = perf_counter(), 0
        while (elapsed := perf_counter() - begin_s) < span.ends_s:
            request_number += 1
            pilot, _ = pilots[int(generator.integers(len(pilots)))]
            answer, _ = matcher.match_one(pilot, (f"direct{number}", request_number), datetime.now(UTC))
            ms = 1000 * (perf_counter() - begin_s - elapsed)
            results.add(answer.pandaid if isinstance(answer, Match) else None, ms, counts=elapsed >= span.warm_s)
    results.write(file)


def _ask(number: int, url: str, token: str, first_s: float, every_s: float, span: Span, file: Path, start: Any) -> None:
    """Run an HTTP client: it sends a request every ``every_s``, and at once if it is late."""
    generator, results = np.random.default_rng(number), _Results()
    heads = [json.dumps(body)[:-1].encode() for _, body in _pilots(file)]
    start.wait()
    with PlainClient(url, token) as client:
        begin_s, request_number, clock = perf_counter(), 0, threading.Event()
        while (due := first_s + request_number * every_s) < span.ends_s:
            request_number += 1
            wait_s = begin_s + due - perf_counter()
            if wait_s > 0:
                clock.wait(wait_s)
            head = heads[int(generator.integers(len(heads)))]
            body = head + b',"pilot":"http%d","request_number":%d}' % (number, request_number)
            pandaid = json.loads(client.answer(b"POST", b"/api/v1/jobs:match", body))["pandaid"]
            end_s = perf_counter() - begin_s
            results.add(pandaid, 1000 * (end_s - due), counts=span.warm_s <= end_s < span.ends_s)
            if end_s >= span.ends_s:
                break
    results.write(file)


def _cpu_of_threads(process: int) -> float:
    """Return the CPU seconds of all threads of a process."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(process: int) -> float:
    """Return the private and shared memory of a process; it does not map PostgreSQL's buffers."""
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")

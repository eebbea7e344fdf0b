"""The clients of the benchmark of matching: processes that call the matcher, and processes that ask the API."""

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
from broker.api.server import Listening
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
    """How long clients ask, in seconds: ``warm_s`` before it counts, then ``counts_s``."""

    warm_s: float
    counts_s: float

    @property
    def ends_s(self) -> float:
        """From the beginning."""
        return self.warm_s + self.counts_s


def ask_directly(
    database: Database, folder: Path, pilots: Pilots, matchers: int, asked: argparse.Namespace
) -> dict[str, Any]:
    """What processes find that call the matcher, each as quickly as it can; ``asked``: the options of the benchmark.

    Nothing counts for the first ``warm`` seconds: processes read task queues and meet nodes, PostgreSQL reads pages.
    """
    files, span = _parts(folder, "direct", pilots, matchers), Span(asked.warm, asked.seconds)
    tasks = [(_match, (database.url, span, file)) for file in files]
    with ServerWatch(postmaster_of(database)) as watch:
        found = _run(tasks, files, span)
    return _figures("direct", found, span, watch)


def ask_over_http(database: Database, folder: Path, pilots: Pilots, asked: argparse.Namespace) -> dict[str, Any]:
    """What clients of HTTP find at a fixed rate, and what the processes of the API took."""
    config = folder / "config"
    config.mkdir()
    (config / "api.yaml").write_text(_NO_RATE, encoding="utf-8")
    files = _parts(folder, "http", pilots, asked.clients)
    with workers_serving(database, Listening(port=0), asked.workers, home=folder, folder=config) as (url, workers):
        token = (folder / "api-token").read_text(encoding="utf-8").strip()
        every_s = asked.clients / asked.rate
        span = Span(asked.warm, asked.seconds)
        tasks = [(_ask, (url, token, number / asked.rate, every_s, span, file)) for number, file in enumerate(files)]
        before_s = sum(map(_cpu_of_threads, workers.processes))
        with ServerWatch(postmaster_of(database)) as watch:
            found = _run(tasks, files, span)
        workers_s = sum(map(_cpu_of_threads, workers.processes)) - before_s
        workers_mb = sum(map(_resident_mb, workers.processes))
    figures = _figures("api", found, span, watch)
    more = {"workers": asked.workers, "workers_mb": workers_mb, "rate": asked.rate}
    return figures | more | {"workers_cpu_ms": 1000 * workers_s / _all_jobs(found, span)}


def _parts(folder: Path, kind: str, pilots: Pilots, clients: int) -> list[Path]:
    """Files into which clients write what they found, beside those with the pilots of each."""
    files = [folder / f"{kind}{number}.json" for number in range(clients)]
    for number, file in enumerate(files):
        file.with_suffix(".pilots").write_bytes(pickle.dumps(pilots[number::clients]))
    return files


def _pilots(file: Path) -> Pilots:
    found: Pilots = pickle.loads(file.with_suffix(".pilots").read_bytes())  # noqa: S301 - ours
    return found


def _run(tasks: list[tuple[Callable[..., None], tuple[Any, ...]]], files: list[Path], span: Span) -> list[Any]:
    """Run a process for each; the first is killed half-way, and does not tell. What the others found."""
    start = _context.Barrier(len(tasks) + 1)
    processes = [_context.Process(target=run, args=(number, *args, start)) for number, (run, args) in enumerate(tasks)]
    for one in processes:
        one.start()
    start.wait()
    processes[0].join(span.warm_s + span.counts_s / 2)
    processes[0].kill()
    for one in processes:
        one.join()
    return [json.loads(file.read_text(encoding="utf-8")) for file in files[1:]]


def _all_jobs(found: list[Any], span: Span) -> float:
    """Jobs from the beginning, with those of the client that was killed after half the time."""
    killed = (span.warm_s + span.counts_s / 2) / span.ends_s
    return sum(len(one["jobs"]) for one in found) * (len(found) + killed) / len(found)


def _figures(kind: str, found: list[Any], span: Span, watch: ServerWatch) -> dict[str, Any]:
    """Rates and times of the clients that lived, in the time that counts; the one that was killed lived half of it."""
    jobs = [job for one in found for job in one["jobs"]]
    if len(jobs) != len(set(jobs)):
        raise SystemExit(f"{kind}: {len(jobs) - len(set(jobs))} jobs were given twice")
    times_ms = np.array([ms for one in found for ms in one["ms"]])
    counted = sum(one["counted"] for one in found)
    return {
        f"{kind}_matches": len(jobs),
        f"{kind}_per_s": counted / span.counts_s * (len(found) + 0.5) / len(found),
        f"{kind}_misses": sum(one["misses"] for one in found),
        f"{kind}_median_ms": float(np.median(times_ms)),
        f"{kind}_p99_ms": float(np.percentile(times_ms, 99)),
        f"{kind}_max_ms": float(times_ms.max()),
        f"{kind}_clients_cpu_ms": 1000 * sum(one["cpu_s"] for one in found) / max(len(jobs), 1),
        f"{kind}_server_cpu_ms": 1000 * watch.cpu_s / max(_all_jobs(found, span), 1),
        f"{kind}_server_mb": watch.own_mb + watch.shared_mb,
    }


class _Found:
    """What one client found, from the time on when it counts."""

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
        told = {"jobs": self.jobs, "ms": self._ms, "counted": self._counted, "misses": self._misses}
        told["cpu_s"] = process_time() - self._began_s
        file.write_text(json.dumps(told), encoding="utf-8")


def _match(number: int, url: str, span: Span, file: Path, start: Any) -> None:
    """A client that calls the matcher; each request is noted under its number, as over HTTP."""
    generator, found, pilots = np.random.default_rng(number), _Found(), _pilots(file)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        matcher = Matcher(connection, Names(), generator)
        start.wait()
        began, asked = perf_counter(), 0
        while (elapsed := perf_counter() - began) < span.ends_s:
            asked += 1
            pilot, _ = pilots[int(generator.integers(len(pilots)))]
            got, _ = matcher.match_one(pilot, (f"direct{number}", asked), datetime.now(UTC))
            ms = 1000 * (perf_counter() - began - elapsed)
            found.add(got.pandaid if isinstance(got, Match) else None, ms, counts=elapsed >= span.warm_s)
    found.write(file)


def _ask(number: int, url: str, token: str, first_s: float, every_s: float, span: Span, file: Path, start: Any) -> None:
    """A client of HTTP: a request every ``every_s``, at once where it is late."""
    generator, found = np.random.default_rng(number), _Found()
    heads = [json.dumps(body)[:-1].encode() for _, body in _pilots(file)]
    start.wait()
    with PlainClient(url, token) as client:
        began, asked, clock = perf_counter(), 0, threading.Event()
        while (due := first_s + asked * every_s) < span.ends_s:
            asked += 1
            wait_s = began + due - perf_counter()
            if wait_s > 0:
                clock.wait(wait_s)
            head = heads[int(generator.integers(len(heads)))]
            body = head + b',"pilot":"http%d","request_number":%d}' % (number, asked)
            got = json.loads(client.answer(b"POST", b"/api/v1/jobs:match", body))["pandaid"]
            ends = perf_counter() - began
            found.add(got, 1000 * (ends - due), counts=span.warm_s <= ends < span.ends_s)
            if ends >= span.ends_s:
                break
    found.write(file)


def _cpu_of_threads(process: int) -> float:
    """Seconds of a processor that all threads of a process took."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(process: int) -> float:
    """Memory of a process of its own and shared, without PostgreSQL's buffers, which it does not map."""
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")

"""Metrics for Prometheus: counted from the aggregates that the cycles write, so that all processes report one grid.

Counters begin at 0 when the process starts and grow by what was decided since. Labels are bounded: names of brokerages,
outcomes, reasons, rules, agents, sources, processes; a queue only where the configuration lists it, a task never.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from broker.domain.rejection_counts import CANDIDATE, QueueCounts
from broker.service.routes.health_gauges import disk_gauges, health_gauges, job_gauges
from broker.service.routes.quality_gauges import quality_gauges
from broker.service.statements import metric_health, metric_quality, metric_reads
from broker.service.statements.metric_reads import Standing
from broker.store.connection.database import Database

CONTENT_TYPE = CONTENT_TYPE_LATEST
LOOKBACK = timedelta(minutes=15)
"""Cycles add to the newest buckets only; a late one may add to one before."""
CYCLE_BUCKETS_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
REQUEST_BUCKETS_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0)
FRESH_S = 1.0
"""Metrics that are younger are shown again: two scrapers cost no more than one."""
JOBS_FRESH_S = 60.0
"""Likewise for counts that look at all jobs."""


Key = tuple[Any, ...]


class Growth:
    """How much counts by bucket have grown since the last look."""

    def __init__(self) -> None:
        self._seen: dict[Key, int] = {}
        self._begun = False

    def of(self, counts: Mapping[Key, int]) -> dict[Key, int]:
        """What was added to each count since it was last seen; nothing at the first look."""
        grown = {key: count - self._seen.get(key, 0) for key, count in counts.items() if self._begun}
        self._seen, self._begun = dict(counts), True
        return {key: count for key, count in grown.items() if count > 0}


class BrokerMetrics(Collector):
    """All metrics of one application.

    Args:
        database: with the aggregates.
        queues: that are labels.
        steady_s: a clock that never goes back.
        home: the folder whose file system must not be full.
    """

    def __init__(self, database: Database, queues: tuple[str, ...], steady_s: Callable[[], float], home: Path) -> None:
        self._database, self._queues, self._steady_s, self._home = database, queues, steady_s, home
        self._plugin_calls, self._jobs_of_shares = Growth(), (float("-inf"), list[tuple[str, str, str, int]]())
        self._lock = threading.Lock()
        self._decided, self._rejected, self._last_run = Growth(), Growth(), -1
        self._shown: tuple[float, bytes] | None = None
        self._gauges: list[Metric] = []
        self.registry = CollectorRegistry(auto_describe=False)
        self._make_counters()
        self.registry.register(self)

    def _make_counters(self) -> None:
        made: dict[str, Any] = {"registry": self.registry}
        self._decisions = Counter(
            "broker_decisions", "Decisions of cycles.", ("brokerage", "outcome", "reason"), **made
        )
        self._jobs = Counter("broker_jobs_assigned", "Jobs that were assigned to queues.", ("brokerage",), **made)
        self._rejections = Counter(
            "broker_rejections", "Queues that a rule rejected, over all decisions.", ("brokerage", "rule"), **made
        )
        self._plugin = Counter(
            "broker_plugin_calls", "Calls of the plug-in for JEDI.", ("brokerage", "outcome", "reason"), **made
        )
        self._cycles = Counter("broker_cycles", "Cycles that ended, by outcome.", ("agent", "outcome"), **made)
        self._cycle_s = Histogram(
            "broker_cycle_seconds", "Seconds of a cycle, by stage.", ("agent", "stage"), buckets=CYCLE_BUCKETS_S, **made
        )
        self._requests = Histogram(
            "broker_http_request_seconds",
            "Seconds until a request was answered.",
            ("method", "route", "status"),
            buckets=REQUEST_BUCKETS_S,
            **made,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; ``route`` is its pattern, never the path itself."""
        self._requests.labels(method, route, f"{status // 100}xx").observe(seconds)

    def text(self) -> bytes:
        """The exposition in the text format of Prometheus, one line a sample."""
        with self._lock:
            now_s = self._steady_s()
            if self._shown is None or now_s - self._shown[0] > FRESH_S:
                self._gauges = self._look()
                self._shown = (now_s, generate_latest(self.registry))
            return self._shown[1]

    def collect(self) -> Iterable[Metric]:
        """What was true at the last look."""
        return self._gauges

    def _look(self) -> list[Metric]:
        """Let the counters grow by what was decided since the last look; the gauges of now."""
        with self._database.begin() as connection:
            decided = metric_reads.recent_decisions(connection, LOOKBACK)
            packed = metric_reads.recent_queue_counts(connection, LOOKBACK)
            if self._last_run < 0:
                self._last_run = metric_reads.last_finished(connection)
            runs = metric_reads.finished_after(connection, self._last_run)
            standing = metric_reads.standing(connection, self._database.names, self._queues)
            health = metric_health.read_health(connection)
            jobs = self._jobs_by_share(connection)
            newest = metric_quality.newest_quality(connection)
        self._count_decisions(decided)
        self._count_rejections(packed)
        self._count_runs(runs)
        for (_, brokerage, outcome, reason), grown in self._plugin_calls.of(
            {one[:4]: one[4] for one in health.plugin}
        ).items():
            self._plugin.labels(brokerage, outcome, reason).inc(grown)
        pilots = (*wanted_pilots(standing, self._queues), *submitted_pilots(standing))
        healthy = (*health_gauges(health), *job_gauges(jobs), *disk_gauges(self._home))
        return [*gauges(standing), *pilots, *healthy, *quality_gauges(newest)]

    def _jobs_by_share(self, connection: sa.Connection) -> list[tuple[str, str, str, int]]:
        """Counted once a minute: it looks at all jobs."""
        now_s = self._steady_s()
        if now_s - self._jobs_of_shares[0] > JOBS_FRESH_S:
            self._jobs_of_shares = (now_s, metric_health.jobs_of_shares(connection, self._database.names))
        return self._jobs_of_shares[1]

    def _count_decisions(self, rows: list[metric_reads.DecisionCount]) -> None:
        by_key: dict[Key, int] = {}
        for row in rows:
            key = (row.bucket_at, row.brokerage, row.outcome, row.reason)
            by_key[("decisions", *key)] = row.decisions
            by_key[("jobs", *key)] = row.jobs
        for (what, _, brokerage, outcome, reason), grown in self._decided.of(by_key).items():
            if what == "decisions":
                self._decisions.labels(brokerage, outcome, reason).inc(grown)
            else:
                self._jobs.labels(brokerage).inc(grown)

    def _count_rejections(self, rows: list[tuple[Any, str, bytes]]) -> None:
        by_key: dict[Key, int] = {
            (bucket, brokerage, code): count
            for bucket, brokerage, data in rows
            for code, count in rejections_in(data).items()
        }
        for (_, brokerage, code), grown in self._rejected.of(by_key).items():
            self._rejections.labels(brokerage, code).inc(grown)

    def _count_runs(self, runs: list[metric_reads.FinishedRun]) -> None:
        for run in runs:
            self._last_run = max(self._last_run, run.id)
            self._cycles.labels(run.agent, run.outcome).inc()
            for stage, seconds in run.timings.items():
                if isinstance(seconds, int | float):
                    self._cycle_s.labels(run.agent, stage.removesuffix("_s")).observe(float(seconds))


def rejections_in(packed: bytes) -> dict[str, int]:
    """How many queues each rule rejected, in packed counts. Pure.

    Raises:
        CountsCorruptError: damaged, or of a newer version.
    """
    counts = QueueCounts.unpack(packed)
    totals = counts.decisions.sum(axis=1).tolist() if counts.queues else [0] * len(counts.codes)
    return {code: int(total) for code, total in zip(counts.codes, totals, strict=True) if code != CANDIDATE}


def gauges(standing: Standing) -> Iterator[Metric]:
    """The gauges of one instant. Pure."""
    pending = GaugeMetricFamily("broker_pending_chunks", "Chunks that wait, by reason.", labels=("brokerage", "reason"))
    oldest = GaugeMetricFamily("broker_oldest_pending_seconds", "The longest wait of a chunk.", labels=("brokerage",))
    longest: dict[str, float] = {}
    for row in standing.pending:
        pending.add_metric((row.brokerage, row.reason), row.chunks)
        longest[row.brokerage] = max(longest.get(row.brokerage, 0.0), row.oldest_s or 0.0)
    for brokerage, seconds in longest.items():
        oldest.add_metric((brokerage,), seconds)
    yield from (pending, oldest)
    leader = GaugeMetricFamily("broker_leader", "1 for the process that leads an agent.", labels=("agent", "process"))
    for name, holder, held in standing.leaders:
        leader.add_metric((name, holder), 1.0 if held else 0.0)
    tuning = GaugeMetricFamily(
        "broker_tuning_version", "Version of the tuning that a process last used.", labels=("process",)
    )
    for holder, version in standing.tuning:
        tuning.add_metric((holder,), version)
    seen = GaugeMetricFamily(
        "broker_service_heartbeat_age_seconds", "Since the last heartbeat of a process.", labels=("process",)
    )
    for holder, seconds in standing.services:
        seen.add_metric((holder,), seconds)
    yield from (leader, tuning, seen, *_sources(standing), _queues(standing))


def _sources(standing: Standing) -> Iterator[Metric]:
    ages = GaugeMetricFamily("broker_source_age_seconds", "Age of a source of the snapshots.", labels=("source",))
    good = GaugeMetricFamily("broker_source_usable", "1 where rules judge by a source.", labels=("source", "state"))
    for state in standing.sources:
        name = str(state.get("name", ""))
        if isinstance(state.get("age_s"), int | float) and standing.snapshot_age_s is not None:
            ages.add_metric((name,), float(state["age_s"]) + standing.snapshot_age_s)
        found = str(state.get("state", "unknown"))
        good.add_metric((name, found), 1.0 if found in ("ok", "shrunk") else 0.0)
    yield from (ages, good)


def _queues(standing: Standing) -> Metric:
    jobs = GaugeMetricFamily("broker_queue_jobs", "Jobs at a queue that is listed.", labels=("queue", "status"))
    for queue, status, count in standing.queues:
        jobs.add_metric((queue, status), count)
    return jobs


def wanted_pilots(standing: Standing, listed: Sequence[str]) -> Iterator[Metric]:
    """New pilots that are wanted: of all queues by resource type, and of each queue that is listed. Pure."""
    total = GaugeMetricFamily(
        "broker_pilots_wanted", "New pilots that all queues together could use.", labels=("resource_type",)
    )
    of_queue = GaugeMetricFamily(
        "broker_queue_pilots_wanted",
        "New pilots that a queue that is listed could use.",
        labels=("queue", "resource_type"),
    )
    sums: dict[str, int] = {}
    for queue, resource_type, wanted in standing.pilots:
        sums[resource_type] = sums.get(resource_type, 0) + wanted
        if queue in listed:
            of_queue.add_metric((queue, resource_type), wanted)
    for resource_type, wanted in sums.items():
        total.add_metric((resource_type,), wanted)
    yield from (total, of_queue)


def submitted_pilots(standing: Standing) -> Iterator[Metric]:
    """Pilots of the agent submitter: those that are there by state, those of the last hour by how they ended. Pure."""
    alive = GaugeMetricFamily(
        "broker_submitted_pilots", "Pilots of the submitter that have not ended.", labels=("state",)
    )
    ended = GaugeMetricFamily(
        "broker_submitted_pilots_ended", "Pilots of the submitter that ended in the last hour.", labels=("outcome",)
    )
    for name, has_ended, count in standing.submitted:
        (ended if has_ended else alive).add_metric((name,), count)
    yield from (alive, ended)

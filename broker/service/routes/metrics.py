"""Metrics for Prometheus, from the aggregates that the cycles write, so that all processes report the same grid.

Counters begin at 0 when the process starts and grow with later decisions. Labels are bounded: names of brokerages,
outcomes, reasons, rules, agents, sources, processes; a queue only if the configuration lists it, a task never.
"""

from __future__ import annotations

import shutil
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
from broker.service.statements import metric_health, metric_quality, metric_reads
from broker.service.statements.metric_health import Health
from broker.service.statements.metric_quality import NewestQuality
from broker.service.statements.metric_reads import CurrentState
from broker.store.connection.database import Database

_OF = ("brokerage", "vo", "placer")


def quality_gauges(newest: Iterable[NewestQuality]) -> Iterator[Metric]:
    """Yield the gauges of the newest measured cycle of each brokerage."""
    regret = GaugeMetricFamily(
        "broker_decision_regret_hs06_hours", "What a cycle cost more than the best placement of its jobs.", labels=_OF
    )
    ratio = GaugeMetricFamily(
        "broker_decision_regret_ratio", "The same, as a part of what the best placement costs.", labels=_OF
    )
    vain = GaugeMetricFamily(
        "broker_decision_regret_bytes_ratio", "Input that is moved in vain, as a part of all input.", labels=_OF
    )
    share = GaugeMetricFamily(
        "broker_decision_regret_share_hs06_hours", "The part of a share in the regret.", labels=(*_OF, "share")
    )
    took = GaugeMetricFamily("broker_decision_regret_measure_seconds", "It took to measure.", labels=_OF)
    for quality in newest:
        of = (quality.brokerage, quality.vo, quality.placer)
        regret.add_metric(of, quality.regret_hs06h)
        took.add_metric(of, quality.measure_s)
        if quality.work_hs06h > 0:
            ratio.add_metric(of, quality.regret_hs06h / quality.work_hs06h)
        if quality.input_gb > 0:
            vain.add_metric(of, quality.vain_gb / quality.input_gb)
        for name, hs06h in quality.shares.items():
            share.add_metric((*of, name), hs06h)
    yield from (regret, ratio, vain, share, took)


def health_gauges(health: Health) -> Iterator[Metric]:
    """Yield the gauges of one instant."""
    closed = GaugeMetricFamily("broker_queues_closed", "Queues that fail, by state.", labels=("state",))
    for state, count in health.closed:
        closed.add_metric((state,), count)
    nodes_held = GaugeMetricFamily(
        "broker_nodes_held", "Nodes whose pilots are given no jobs, by queue.", labels=("queue",)
    )
    for queue, count in health.held:
        nodes_held.add_metric((queue,), count)
    paused = GaugeMetricFamily("broker_agent_paused", "1 for an agent that is paused.", labels=("agent", "by"))
    for agent, by in health.paused:
        paused.add_metric((agent, by), 1.0)
    messages = GaugeMetricFamily(
        "broker_notifications", "Messages that wait or fail, and the last day's others.", labels=("channel", "state")
    )
    for channel, state, count in health.messages:
        messages.add_metric((channel, state), count)
    streams = GaugeMetricFamily(
        "broker_published_decisions", "Decisions published: sent, lost, backlog (up to 100,000).",
        labels=("channel", "state"),
    )  # fmt: skip
    failing = GaugeMetricFamily(
        "broker_published_decisions_failing", "1 where the last try to publish decisions failed.", labels=("channel",)
    )
    for channel, sent, lost, is_failing, backlog in health.streams:
        for state, count in (("sent", sent), ("lost", lost), ("backlog", backlog)):
            streams.add_metric((channel, state), count)
        failing.add_metric((channel,), is_failing)
    acknowledged_alarms = GaugeMetricFamily("broker_alarms_acknowledged", "Alarms that somebody looks at.")
    acknowledged_alarms.add_metric((), health.acknowledged)
    size = GaugeMetricFamily("broker_database_bytes", "Size of the database.")
    size.add_metric((), health.database_bytes)
    yield from (closed, nodes_held, paused, messages, streams, failing, acknowledged_alarms, size)


def job_gauges(jobs: Iterable[tuple[str, str, str, int]]) -> Iterator[Metric]:
    """Yield jobs by VO, share and status."""
    gauge = GaugeMetricFamily("broker_jobs", "Jobs that have not ended.", labels=("vo", "share", "status"))
    for vo, share, status, count in jobs:
        gauge.add_metric((vo, share, status), count)
    yield gauge


def disk_gauges(folder: Path) -> Iterator[Metric]:
    """Yield the free space on the file system of a folder, if it exists."""
    free = GaugeMetricFamily("broker_disk_free_bytes", "Room on the file system of the broker's home.")
    total = GaugeMetricFamily("broker_disk_bytes", "Size of the file system of the broker's home.")
    if folder.exists():
        usage = shutil.disk_usage(folder)
        free.add_metric((), usage.free)
        total.add_metric((), usage.total)
    yield from (free, total)


CONTENT_TYPE = CONTENT_TYPE_LATEST
LOOKBACK = timedelta(minutes=15)
"""Cycles add only to the newest buckets; a late one may add to an earlier bucket."""
CYCLE_BUCKETS_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
REQUEST_BUCKETS_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0)
FRESH_S = 1.0
"""Younger metrics are reused: two scrapers cost no more than one."""
JOBS_FRESH_S = 60.0
"""The same for counts that read all jobs."""


Key = tuple[Any, ...]


class Growth:
    """The growth of counts by bucket since the last reading."""

    def __init__(self) -> None:
        self._seen: dict[Key, int] = {}
        self._begun = False

    def of(self, counts: Mapping[Key, int]) -> dict[Key, int]:
        """Return the increase of each count since it was last seen; nothing at the first reading."""
        grown = {key: count - self._seen.get(key, 0) for key, count in counts.items() if self._begun}
        self._seen, self._begun = dict(counts), True
        return {key: count for key, count in grown.items() if count > 0}


class BrokerMetrics(Collector):
    """All metrics of one application.

    Args:
        database: database with the aggregates.
        queues: queues that are used as labels.
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
        attributes: dict[str, Any] = {"registry": self.registry}
        self._decisions = Counter(
            "broker_decisions", "Decisions of cycles.", ("brokerage", "outcome", "reason"), **attributes
        )
        self._jobs = Counter("broker_jobs_assigned", "Jobs that were assigned to queues.", ("brokerage",), **attributes)
        self._rejections = Counter(
            "broker_rejections", "Queues that a rule rejected, over all decisions.", ("brokerage", "rule"), **attributes
        )
        self._plugin = Counter(
            "broker_plugin_calls", "Calls of the plug-in for JEDI.", ("brokerage", "outcome", "reason"), **attributes
        )
        self._cycles = Counter("broker_cycles", "Cycles that ended, by outcome.", ("agent", "outcome"), **attributes)
        self._cycle_s = Histogram(
            "broker_cycle_seconds",
            "Seconds of a cycle, by stage.",
            ("agent", "stage"),
            buckets=CYCLE_BUCKETS_S,
            **attributes,
        )
        self._requests = Histogram(
            "broker_http_request_seconds",
            "Seconds until a request was answered.",
            ("method", "route", "status"),
            buckets=REQUEST_BUCKETS_S,
            **attributes,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; ``route`` is its pattern, never the path itself."""
        self._requests.labels(method, route, f"{status // 100}xx").observe(seconds)

    def text(self) -> bytes:
        """Return the metrics in the Prometheus text format, one line a sample."""
        with self._lock:
            now_s = self._steady_s()
            if self._shown is None or now_s - self._shown[0] > FRESH_S:
                self._gauges = self._look()
                self._shown = (now_s, generate_latest(self.registry))
            return self._shown[1]

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of the last reading."""
        return self._gauges

    def _look(self) -> list[Metric]:
        """Increase the counters by the decisions since the last reading and return the current gauges."""
        with self._database.begin() as connection:
            decided = metric_reads.recent_decisions(connection, LOOKBACK)
            packed = metric_reads.recent_queue_counts(connection, LOOKBACK)
            if self._last_run < 0:
                self._last_run = metric_reads.last_finished(connection)
            runs = metric_reads.finished_after(connection, self._last_run)
            current = metric_reads.current_state(connection, self._database.names, self._queues)
            health = metric_health.read_health(connection)
            jobs = self._jobs_by_share(connection)
            newest = metric_quality.newest_quality(connection)
        self._count_decisions(decided)
        self._count_rejections(packed)
        self._count_runs(runs)
        for (_, brokerage, outcome, reason), grown in self._plugin_calls.of(
            {row[:4]: row[4] for row in health.plugin}
        ).items():
            self._plugin.labels(brokerage, outcome, reason).inc(grown)
        pilots = (*wanted_pilots(current, self._queues), *submitted_pilots(current))
        healthy = (*health_gauges(health), *job_gauges(jobs), *disk_gauges(self._home))
        return [*gauges(current), *pilots, *healthy, *quality_gauges(newest)]

    def _jobs_by_share(self, connection: sa.Connection) -> list[tuple[str, str, str, int]]:
        """Count jobs by share, once a minute, since this reads all jobs."""
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
    """Return how many queues each rule rejected, from packed counts. Pure.

    Raises:
        CountsCorruptError: the counts are damaged, or of a newer version.
    """
    counts = QueueCounts.unpack(packed)
    totals = counts.decisions.sum(axis=1).tolist() if counts.queues else [0] * len(counts.codes)
    return {code: int(total) for code, total in zip(counts.codes, totals, strict=True) if code != CANDIDATE}


def gauges(current: CurrentState) -> Iterator[Metric]:
    """Yield the gauges of one instant. Pure."""
    pending = GaugeMetricFamily("broker_pending_chunks", "Chunks that wait, by reason.", labels=("brokerage", "reason"))
    oldest = GaugeMetricFamily("broker_oldest_pending_seconds", "The longest wait of a chunk.", labels=("brokerage",))
    longest: dict[str, float] = {}
    for row in current.pending:
        pending.add_metric((row.brokerage, row.reason), row.chunks)
        longest[row.brokerage] = max(longest.get(row.brokerage, 0.0), row.oldest_s or 0.0)
    for brokerage, seconds in longest.items():
        oldest.add_metric((brokerage,), seconds)
    yield from (pending, oldest)
    leader = GaugeMetricFamily("broker_leader", "1 for the process that leads an agent.", labels=("agent", "process"))
    for name, holder, held in current.leaders:
        leader.add_metric((name, holder), 1.0 if held else 0.0)
    tuning = GaugeMetricFamily(
        "broker_tuning_version", "Version of the tuning that a process last used.", labels=("process",)
    )
    for holder, version in current.tuning:
        tuning.add_metric((holder,), version)
    heartbeats = GaugeMetricFamily(
        "broker_service_heartbeat_age_seconds", "Since the last heartbeat of a process.", labels=("process",)
    )
    for holder, seconds in current.services:
        heartbeats.add_metric((holder,), seconds)
    yield from (leader, tuning, heartbeats, *_sources(current), _queues(current))


def _sources(current: CurrentState) -> Iterator[Metric]:
    ages = GaugeMetricFamily("broker_source_age_seconds", "Age of a source of the snapshots.", labels=("source",))
    good = GaugeMetricFamily("broker_source_usable", "1 where rules judge by a source.", labels=("source", "state"))
    for state in current.sources:
        name = str(state.get("name", ""))
        if isinstance(state.get("age_s"), int | float) and current.snapshot_age_s is not None:
            ages.add_metric((name,), float(state["age_s"]) + current.snapshot_age_s)
        state_name = str(state.get("state", "unknown"))
        good.add_metric((name, state_name), 1.0 if state_name in ("ok", "shrunk") else 0.0)
    yield from (ages, good)


def _queues(current: CurrentState) -> Metric:
    jobs = GaugeMetricFamily("broker_queue_jobs", "Jobs at a queue that is listed.", labels=("queue", "status"))
    for queue, status, count in current.queues:
        jobs.add_metric((queue, status), count)
    return jobs


def wanted_pilots(current: CurrentState, listed: Sequence[str]) -> Iterator[Metric]:
    """Yield the new pilots wanted: of all queues by resource type, and of each listed queue. Pure."""
    total = GaugeMetricFamily(
        "broker_pilots_wanted", "New pilots that all queues together could use.", labels=("resource_type",)
    )
    of_queue = GaugeMetricFamily(
        "broker_queue_pilots_wanted",
        "New pilots that a queue that is listed could use.",
        labels=("queue", "resource_type"),
    )
    sums: dict[str, int] = {}
    for queue, resource_type, pilots in current.pilots:
        sums[resource_type] = sums.get(resource_type, 0) + pilots
        if queue in listed:
            of_queue.add_metric((queue, resource_type), pilots)
    for resource_type, pilots in sums.items():
        total.add_metric((resource_type,), pilots)
    yield from (total, of_queue)


def submitted_pilots(current: CurrentState) -> Iterator[Metric]:
    """Yield the submitter's pilots: current ones by state, those of the last hour by how they ended. Pure."""
    alive = GaugeMetricFamily(
        "broker_submitted_pilots", "Pilots of the submitter that have not ended.", labels=("state",)
    )
    ended = GaugeMetricFamily(
        "broker_submitted_pilots_ended", "Pilots of the submitter that ended in the last hour.", labels=("outcome",)
    )
    for name, has_ended, count in current.submitted:
        (ended if has_ended else alive).add_metric((name,), count)
    yield from (alive, ended)

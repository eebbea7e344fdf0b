"""The gauges that say how healthy the whole is. Pure, but for the room on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from broker.service.statements.metric_health import Health


def health_gauges(health: Health) -> Iterator[Metric]:
    """The gauges of one instant."""
    closed = GaugeMetricFamily("broker_queues_closed", "Queues that fail, by state.", labels=("state",))
    for state, count in health.closed:
        closed.add_metric((state,), count)
    held = GaugeMetricFamily("broker_nodes_held", "Nodes whose pilots are given no jobs, by queue.", labels=("queue",))
    for queue, count in health.held:
        held.add_metric((queue,), count)
    paused = GaugeMetricFamily("broker_agent_paused", "1 for an agent that is paused.", labels=("agent", "by"))
    for agent, by in health.paused:
        paused.add_metric((agent, by), 1.0)
    messages = GaugeMetricFamily(
        "broker_notifications", "Messages that wait or fail, and the last day's others.", labels=("channel", "state")
    )
    for channel, state, count in health.messages:
        messages.add_metric((channel, state), count)
    known = GaugeMetricFamily("broker_alarms_acknowledged", "Alarms that somebody looks at.")
    known.add_metric((), health.acknowledged)
    size = GaugeMetricFamily("broker_database_bytes", "Size of the database.")
    size.add_metric((), health.database_bytes)
    yield from (closed, held, paused, messages, known, size)


def job_gauges(jobs: Iterable[tuple[str, str, str, int]]) -> Iterator[Metric]:
    """Jobs by VO, share and status."""
    found = GaugeMetricFamily("broker_jobs", "Jobs that have not ended.", labels=("vo", "share", "status"))
    for vo, share, status, count in jobs:
        found.add_metric((vo, share, status), count)
    yield found


def disk_gauges(folder: Path) -> Iterator[Metric]:
    """The room on the file system of a folder, where it is there."""
    free = GaugeMetricFamily("broker_disk_free_bytes", "Room on the file system of the broker's home.")
    total = GaugeMetricFamily("broker_disk_bytes", "Size of the file system of the broker's home.")
    if folder.exists():
        found = shutil.disk_usage(folder)
        free.add_metric((), found.free)
        total.add_metric((), found.total)
    yield from (free, total)

"""The agent that classifies queues by how long users' jobs wait there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import sqlalchemy as sa

from agents.classes.classification import ClassificationAgent, Evaluation, queues_on_record
from agents.service.base import CycleContext
from broker.classes.site_classes import (
    ClassLimits,
    SiteClass,
    WaitTime,
    class_limits,
    site_classes,
    starts_window,
    wait_times,
)
from broker.domain.classification import SITE_CLASS_NAMES, known_or_none
from broker.store.classes.class_inputs import read_queued_samples, read_starts, read_wait_samples
from broker.store.connection.tables import TableCatalogue


class SiteClassAgent(ClassificationAgent):
    """Writes ``analy_pmerge_jobs_wait_time`` and ``analy_site_eval`` of each queue that has sample jobs."""

    name = "site_class"
    title = "classes of queues: hi, mid and lo"

    def evaluate(self, connection: sa.Connection, catalogue: TableCatalogue, context: CycleContext) -> Evaluation:
        """Judge the sample jobs of four days."""
        evaluation = Evaluation()
        queues = queues_on_record(connection, catalogue, evaluation.dropped_rows)
        samples = read_wait_samples(connection, catalogue, context.now)
        context.check()
        waits = wait_times(samples, read_queued_samples(connection, catalogue, context.now), queues)
        context.check()
        starts = [read_starts(connection, catalogue, starts_window(context.now, hours)) for hours in (6.0, 24.0)]
        limits = class_limits(waits, queues)
        classes = site_classes(waits, queues, limits, starts[0], starts[1])
        evaluation.metrics = (
            *(wait.row(name) for name, wait in waits.items()),
            *(one.row(name) for name, one in classes.items()),
        )
        evaluation.output = [_message(name, wait, classes.get(name), limits) for name, wait in waits.items()]
        by_class = Counter(one.site_class for one in classes.values())
        evaluation.counts = {"queues": len(queues), "samples": len(samples.wait_s), "measured": len(waits)}
        evaluation.counts |= {name: by_class[number] for number, name in SITE_CLASS_NAMES.items()}
        if not waits:
            evaluation.notes.append("no sample job of the last 4 days ran at a queue on record: no class was made")
        return evaluation


def _message(queue: str, wait: WaitTime, site_class: SiteClass | None, limits: ClassLimits) -> dict[str, Any]:
    return {
        "queue": queue,
        "class": None if site_class is None else SITE_CLASS_NAMES[site_class.site_class],
        "resource_type": None if site_class is None else site_class.resource_type,
        "n": wait.n,
        "w_mean": known_or_none(wait.w_mean),
        "w_stdev": known_or_none(wait.w_stdev),
        "w_cl95upp": known_or_none(wait.w_cl95upp),
        "long_q_n": wait.long_q_n,
        "long_q_mean": known_or_none(wait.long_q_mean),
        "strr_6h": None if site_class is None else site_class.strr_6h,
        "strr_1d": None if site_class is None else site_class.strr_1d,
        "hi_up_to_s": limits.hi_s,
        "lo_above_s": limits.lo_s,
    }

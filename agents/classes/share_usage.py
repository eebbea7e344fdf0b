"""The agent that reports how much of its target each share uses."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from agents.classes.classification import ClassificationAgent, Evaluation, queues_on_record
from agents.service.base import CycleContext
from agents.service.configuration import config_file
from broker.classes.share_preference import ShareNode, leaves_of, preferences, share_loads
from broker.errors import Refused
from broker.snapshot.build_classes import share_values
from broker.snapshot.source_list import limits_of
from broker.store.classes.class_inputs import read_share_counts, read_share_rows
from broker.store.connection.tables import TableCatalogue
from broker.yaml_text import read_yaml


class ShareUsageAgent(ClassificationAgent):
    """Writes ``gshare_preference`` of each share of jobs, and of each top-level share."""

    name = "share_usage"
    title = "usage of shares against their targets"

    def evaluate(self, connection: sa.Connection, catalogue: TableCatalogue, context: CycleContext) -> Evaluation:
        """Compare what runs with what is due.

        Raises:
            Refused: PanDA's statistics of jobs are too old, or no queue is on record.
        """
        evaluation = Evaluation()
        values = share_values(read_share_rows(connection, catalogue), evaluation.dropped_rows)
        leaves = leaves_of((ShareNode(*value) for value in values), evaluation.dropped_rows)
        queues = queues_on_record(connection, catalogue, evaluation.dropped_rows)
        counts, computed_at = read_share_counts(connection, catalogue, self.process.job_statistics)
        if self.process.job_statistics == "panda":
            self._refuse_old(computed_at, context.now)
        shares = preferences(leaves, share_loads(counts, queues), evaluation.dropped_rows)
        evaluation.metrics = tuple(one.row() for one in shares)
        evaluation.output = [dict(row.document) for row in evaluation.metrics]
        evaluation.counts = {"shares": len(shares), "leaves": len(leaves)}
        if not shares:
            evaluation.notes.append("no share is on record (global_shares): nothing can be told of their usage")
        return evaluation

    def _refuse_old(self, computed_at: datetime | None, now: datetime) -> None:
        file = config_file("sources.yaml", self.process.folder)
        limit_s = limits_of(read_yaml(file.read_text(encoding="utf-8")))["jobs"].max_age_s
        if computed_at is not None and (limit_s is None or (now - computed_at).total_seconds() <= limit_s):
            return
        fault = (
            "there are none"
            if computed_at is None
            else f"they are of {computed_at:%Y-%m-%d %H:%M:%S}, limit {limit_s:g} s"
        )
        raise Refused(
            f"PanDA's statistics of jobs cannot be used: {fault}",
            "jobs_share_stats",
            "nothing was written; see what refreshes this table, and config/sources.yaml for the limit",
        )

"""The agent that folds how jobs ended into the record of queues and the health of queues and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

import sqlalchemy as sa
from pydantic import Field, model_validator

from agents.brokerage.grid_reading import tuning_of
from agents.service import fault_points
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from agents.service.configuration import config_file
from broker.domain.queue_health import HealthFold, HealthLimits
from broker.gdpconfig.tuning import Tuning
from broker.history.model.error_classes import ErrorClasses, read_error_classes
from broker.outcomes.model.record import ArchivedJob, judged, kind_of
from broker.outcomes.statements import failed_inputs, held_nodes, job_starts, outcome_rows
from broker.pilots.statements import held_jobs
from broker.store.connection.tables import TableCatalogue

AVOID_NODES = "LEARNED_AVOID_NODES"
_OF_TEST = {"evidence", "node_evidence", "usual_least", "tasks", "probe_jobs", "probe_finished"}


class OutcomesOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        overlap_s: ends written this much later than others with the same time are still folded, each once.
        first_hours: how far back the first cycle looks.
        jobs_of_a_cycle: ends folded in one cycle, the oldest first; the others wait for the next one.
        jobs_of_a_batch: ends folded in one transaction.
        node_days: a healthy node at which nothing ended for this long is forgotten.
        evidence, node_evidence: logarithm of the likelihood ratio at which a queue, or a node, is closed.
        usual_least: rate of failures up to which a queue is healthy, whatever its own past.
        tasks: number of tasks whose failures close a queue; two if these finish elsewhere.
        probe_jobs, probe_finished: jobs of a probation, and how many of them must finish.
    """

    overlap_s: float = Field(default=600.0, ge=0, le=86_400)
    first_hours: float = Field(default=24.0, gt=0, le=24 * 35)
    jobs_of_a_cycle: int = Field(default=200_000, ge=1)
    jobs_of_a_batch: int = Field(default=20_000, ge=1)
    node_days: float = Field(default=2.0, gt=0, le=365)
    evidence: float = Field(default=10.0, gt=0, le=100)
    node_evidence: float = Field(default=8.0, gt=0, le=100)
    usual_least: float = Field(default=0.2, ge=0.01, le=0.4)
    tasks: int = Field(default=3, ge=1, le=100)
    probe_jobs: int = Field(default=5, ge=1, le=1000)
    probe_finished: int = Field(default=4, ge=1, le=1000)

    @model_validator(mode="after")
    def _can_be_passed(self) -> OutcomesOptions:
        if self.probe_finished > self.probe_jobs:
            raise ValueError("probe_finished is above probe_jobs: no probation could be passed")
        return self

    @property
    def limits(self) -> HealthLimits:
        """The limits of the test."""
        return HealthLimits(**self.model_dump(include=_OF_TEST))


class OutcomesAgent(Agent[OutcomesOptions]):
    """Folds each ended job once, in the order of the ends, and never reads earlier ones again."""

    name = "outcomes"
    title = "record of queues and health of queues and nodes, from how jobs ended"
    options_type = OutcomesOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Fold what has ended since the last cycle."""
        started = perf_counter()
        published = tuning_of(context)
        tuning = published.tuning(published.catalogue.vo)
        holding = tuning.flag(AVOID_NODES)
        classes = self._classes()
        counts: Counter[str] = Counter(ended=0, failed=0, closed=0, reopened=0, failed_inputs=0)
        notes: tuple[str, ...] = ()
        while True:
            batch = min(self.options.jobs_of_a_batch, self.options.jobs_of_a_cycle - counts["ended"])
            folded = self._batch(context, classes, batch, counts)
            context.check()
            if folded < batch or not context.writes:
                break
            if counts["ended"] >= self.options.jobs_of_a_cycle:
                notes = ("more jobs have ended than jobs_of_a_cycle; the next cycle goes on",)
                break
        folded_s = perf_counter() - started
        with context.transaction() as connection:
            if context.writes:
                catalogue = TableCatalogue.read(connection, context.database.names)
                counts["queues_running"] = outcome_rows.note_running(connection, catalogue, context.now, kind_of)
                counts["started_this_hour"] = job_starts.note_starts(connection, catalogue, context.now)
                counts["held_nodes"] = held_nodes.hold_nodes(connection, context.now, holding=holding)
                failed_inputs.forget_failed(connection, context.now)
                counts["held_jobs"] = self._hold_jobs(connection, context, tuning)
                outcome_rows.forget_old(connection, self.options.limits, context.now, self.options.node_days)
                if not notes:
                    outcome_rows.note_refresh(connection, context.now)
        timings = {"fold_s": folded_s, "running_s": perf_counter() - started - folded_s}
        return CycleReport(dict(counts), timings, notes, tuning=published.version)

    def _hold_jobs(self, connection: sa.Connection, context: CycleContext, tuning: Tuning) -> int:
        """Hold jobs from the nodes where their input failed, while the key is on; return how many are held."""
        names, within = context.database.names, held_jobs.held_for(tuning)
        if within is not None:
            held_jobs.hold_jobs(connection, names, context.now, within)
        return held_jobs.release_jobs(connection, names, context.now, holding=within is not None)

    def _classes(self) -> ErrorClasses:
        file = config_file("error_classes.yaml", self.process.folder)
        return read_error_classes(file.read_text(encoding="utf-8"), str(file))

    def _batch(self, context: CycleContext, classes: ErrorClasses, most: int, counts: Counter[str]) -> int:
        """Fold one batch in one transaction and return the number of its jobs."""

        def decode(row: Mapping[str, Any]) -> tuple[str, str]:
            errors = classes.decode(row)
            return (errors[0].error_class, errors[0].fault) if errors else ("unknown", "unknown")

        with context.transaction() as connection:
            catalogue = TableCatalogue.read(connection, context.database.names)
            since = outcome_rows.folded_until(connection)
            overlap = timedelta(seconds=self.options.overlap_s)
            first = context.now - timedelta(hours=self.options.first_hours)
            begin = first if since is None else since - overlap
            jobs = outcome_rows.read_ends(connection, catalogue, begin, context.now, most, decode)
            until = datetime.fromtimestamp(jobs[-1].known_s, UTC) if len(jobs) == most else context.now
            record = outcome_rows.read_record(connection, jobs)
            for job in jobs:
                record.add(job)
            health = self._judge(connection, context, jobs, counts, until)
            if context.writes:
                outcome_rows.write_record(connection, record)
                outcome_rows.write_health(connection, health, {one.jeditaskid for one in jobs})
                counts["failed_inputs"] += failed_inputs.note_failed(connection, catalogue, jobs)
                outcome_rows.note_folded(connection, jobs, until, self.options.overlap_s)
                fault_points.reach("after_write_before_commit")
        counts.update(ended=len(jobs), failed=sum(one.jobstatus == "failed" for one in jobs))
        return len(jobs)

    def _judge(
        self,
        connection: sa.Connection,
        context: CycleContext,
        jobs: list[ArchivedJob],
        counts: Counter[str],
        until: datetime,
    ) -> HealthFold:
        """The health of the queues of these jobs, whose changes are counted and emitted."""
        tasks = {one.jeditaskid for one in jobs}
        fold = outcome_rows.read_health(connection, self.options.limits, {one.queue for one in jobs}, tasks)
        before = {key: place.state for key, place in fold.places.items()}
        fold.add_all(end for end in map(judged, jobs) if end is not None)
        fold.advance(until.timestamp())
        for key in sorted(fold.touched):
            place, former = fold.places[key], before.get(key, "healthy")
            if place.state == former:
                continue
            counts["closed"] += place.state == "excluded"
            counts["reopened"] += former in ("excluded", "probation") and place.state in ("healthy", "suspected")
            if context.request.emit is not None:
                context.request.emit(
                    {"queue": place.queue, "kind": place.kind, "node": place.node, "was": former, "state": place.state,
                     "statistic": place.statistic, "failed": place.failed, "ended": place.ended,
                     "tasks": len(place.tasks)}
                )  # fmt: skip
        return fold

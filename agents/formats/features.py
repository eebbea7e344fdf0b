"""The agent that adds up what pilots report about their queues: Machine/Job Features by queue, for the snapshot."""

from __future__ import annotations

from datetime import timedelta
from time import perf_counter

from pydantic import Field

from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from broker.formats.model.feature_summary import QueueSummary, SummaryRules, summarise
from broker.formats.statements import feature_rows


class FeaturesOptions(AgentOptions, SummaryRules):
    """How reports become figures, which of them count, and how long they are kept.

    Attributes:
        window_h: reports older than this many hours do not count.
        keep_days: reports are removed after this many days.
    """

    window_h: float = Field(default=6.0, gt=0, le=168)
    keep_days: float = Field(default=7.0, gt=0, le=365)


class FeaturesAgent(Agent[FeaturesOptions]):
    """Writes one row of figures for each queue that pilots reported about."""

    name = "features"
    title = "Machine/Job Features of queues, from what pilots report"
    options_type = FeaturesOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Add up the reports of the window and write the figures in place of the last ones."""
        started = perf_counter()
        window = timedelta(hours=self.options.window_h)
        with context.database.read_snapshot() as connection:
            reports = feature_rows.read_reports(connection, context.now, window)
        context.check()
        summaries = summarise(reports, context.now.timestamp(), self.options)
        loaded_s = perf_counter() - started
        forgotten = self._write(context, summaries)
        if context.request.emit is not None:
            for one in summaries:
                context.request.emit(_message(one))
        draining = sum(one.shutdown_s is not None for one in summaries)
        counts = {"reports": len(reports), "queues": len(summaries), "draining": draining, "forgotten": forgotten}
        return CycleReport(counts, {"load_s": loaded_s, "write_s": perf_counter() - started - loaded_s})

    def _write(self, context: CycleContext, summaries: tuple[QueueSummary, ...]) -> int:
        """Write the figures, if the cycle may write; return how many old reports were removed."""
        if not context.writes:
            return 0
        with context.writing() as connection:
            feature_rows.replace_summaries(connection, summaries, context.now)
            oldest = context.now - timedelta(days=self.options.keep_days)
            forgotten = feature_rows.forget_reports(connection, oldest)
        return forgotten


def _message(one: QueueSummary) -> dict[str, object]:
    return {
        "queue": one.queue,
        "pilots": one.pilots,
        "corepower": one.corepower,
        "maxtime_s": one.maxtime_s,
        "maxrss_per_core_mb": one.maxrss_per_core_mb,
        "maxwdir_per_core_mb": one.maxwdir_per_core_mb,
        "draining_pilots": one.draining_pilots,
        "shutdown": one.shutdown_s,
    }

"""The agents that keep the summaries of worker nodes current: CPU levels of queues, and GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import ClassVar

import sqlalchemy as sa
from pydantic import Field

from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from agents.service.configuration import ProcessSettings
from broker.store.connection.tables import TableCatalogue, read_columns
from broker.store.schema import migrate
from broker.store.summaries.worker_node_summaries import (
    CPU_SUMMARY,
    GPU_SUMMARY,
    Differences,
    Relation,
    Reports,
    WorkerNodeSummary,
    count_differences,
    forget_refresh,
    note_refresh,
    read_reports,
    refresh_view,
    relation_of,
    write_differences,
)


class SummaryOptions(AgentOptions):
    """Options of the agents that keep summaries.

    Attributes:
        remark_after_s: the run has a note when the newest report is older than this.
    """

    remark_after_s: float = Field(default=86_400.0, gt=0, allow_inf_nan=False)


@dataclass
class _SummaryState:
    """The summary and its reports as a cycle reads them, and the counts and notes of the cycle."""

    relation: Relation
    reports: Reports
    columns: Sequence[str]
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def changed(self, differences: Differences) -> None:
        self.counts |= {"rows": differences.rows, "added": differences.added, "removed": differences.removed}


class SummaryAgent(Agent[SummaryOptions]):
    """Keeps one summary current.

    Attributes:
        summary: the summary that it keeps.
    """

    summary: ClassVar[WorkerNodeSummary]
    options_type = SummaryOptions

    def __init__(self, options: SummaryOptions, process: ProcessSettings) -> None:
        """Start without a noted reason to leave the summary to PanDA."""
        super().__init__(options, process)
        self._left_to_others = ""

    def cycle(self, context: CycleContext) -> CycleReport:
        """Refresh the summary once."""
        standalone = migrate.check(context.database) == migrate.STANDALONE
        context.check()
        started = perf_counter()
        if not context.writes:
            with context.database.read_snapshot() as connection:
                state = self._look(connection, context)
                self._count(connection, context, state, standalone)
        else:
            with context.writing() as connection:
                state = self._look(connection, context)
                self._refresh(connection, context, state, standalone)
        if context.request.emit is not None:
            context.request.emit({"summary": self.summary.table, "kind": state.relation.kind, **state.counts})
        return CycleReport(state.counts, {"refresh_s": perf_counter() - started}, tuple(state.notes))

    def _look(self, connection: sa.Connection, context: CycleContext) -> _SummaryState:
        names = context.database.names
        columns = read_columns(connection, names)
        reports = read_reports(connection, TableCatalogue(names, columns), self.summary)
        relation = relation_of(connection, names, self.summary.table)
        state = _SummaryState(relation, reports, tuple(columns.get(self.summary.table, ())))
        age_s = reports.age_s(context.now)
        if age_s is not None:
            state.counts["newest_report_age_s"] = round(age_s)
            if age_s > self.options.remark_after_s:
                state.notes.append(
                    f"the newest report in {self.summary.stamped} is {age_s:.0f} s old "
                    f"(remark_after_s {self.options.remark_after_s:g})"
                )
        elif self.summary.stamped not in reports.absent:
            state.notes.append(f"no row of {self.summary.stamped} says when it was last seen")
        return state

    def _count(self, connection: sa.Connection, context: CycleContext, state: _SummaryState, standalone: bool) -> None:
        if not self._writes_table(state, standalone):
            return
        names = context.database.names
        state.changed(count_differences(connection, names, self.summary, state.columns, context.now))

    def _refresh(
        self, connection: sa.Connection, context: CycleContext, state: _SummaryState, standalone: bool
    ) -> None:
        names, table, relation = context.database.names, self.summary.table, state.relation
        if self._writes_table(state, standalone):
            state.changed(write_differences(connection, names, self.summary, state.columns, context.now))
        elif relation.kind == "materialised view" and relation.refreshable and _can_be_refreshed(relation):
            state.counts["rows"] = refresh_view(connection, names, table, first=not relation.populated)
        else:
            if not (standalone and relation.kind == "table"):
                self._leave(state)
                forget_refresh(connection, self.summary)
            return
        note_refresh(connection, self.summary, context.now)

    def _writes_table(self, state: _SummaryState, standalone: bool) -> bool:
        """Whether the summary is a table of ours and there are reports; without any it stays as it is."""
        if not standalone or state.relation.kind != "table":
            return False
        if state.reports.absent:
            state.notes.append(
                f"there are no rows in {', '.join(state.reports.absent)}: {self.summary.table} stays as it is"
            )
        return not state.reports.absent

    def _leave(self, state: _SummaryState) -> None:
        """Note why the summary is left to PanDA, only once while the reason stays the same."""
        relation = state.relation
        if relation.kind == "missing":
            why = "there is none in this database"
        elif relation.kind != "materialised view":
            why = f"it is a {'table' if relation.kind == 'table' else 'relation'} of PanDA's, which PanDA keeps current"
        elif not relation.refreshable:
            why = "the role of the broker does not own the materialised view, so PanDA refreshes it"
        else:
            why = "it has no unique index, so that a refresh would stop its readers: PanDA refreshes it"
        if why != self._left_to_others:
            self._left_to_others = why
            state.notes.append(f"{self.summary.table} is left as it is: {why}")


def _can_be_refreshed(relation: Relation) -> bool:
    return relation.indexed or not relation.populated


class WorkerNodesAgent(SummaryAgent):
    """Keeps ``mv_worker_node_summary`` current from ``worker_node`` and ``worker_node_queue``."""

    name = "worker_nodes"
    title = "summary of the CPUs of worker nodes"
    summary = CPU_SUMMARY


class GpuSummaryAgent(SummaryAgent):
    """Keeps ``mv_worker_node_gpu_summary`` current from ``worker_node_gpus`` and ``worker_node_queue``."""

    name = "gpu_summary"
    title = "summary of the GPUs of worker nodes"
    summary = GPU_SUMMARY

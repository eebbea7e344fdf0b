"""The agent that keeps the mapping of SubmitPools to queues current."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Literal

from pydantic import Field, model_validator

from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from broker.errors import Refused
from broker.pools.model.resource_text import KINDS
from broker.pools.statements.pool_refresh import Mapping, RefreshState, new_mapping, refresh_state, write_mapping
from broker.pools.statements.pool_registration import restore_missing
from broker.pools.statements.resource_versions import (
    BadResources,
    ResourceText,
    ResourceVersion,
    current,
    from_panda,
    publish,
)
from broker.store.connection.tables import TableCatalogue

MISSED_PERIODS = 3
"""Periods without a refresh that raise the alarm. Source: DIRAC RFC 7, refresh of the mapping."""


class SubmitPoolRefreshOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        refresh_every_s: the mapping is refreshed after this time, and at once when the resources have changed.
        resources: where they come from: ``published`` with ``broker pool resources``, from a ``file`` that is read
            again every cycle, or from ``panda``, the queues in the database.
        file: the file.
    """

    refresh_every_s: float = Field(default=900.0, gt=0, le=86_400)
    resources: Literal["published", "file", "panda"] = "published"
    file: Path | None = None

    @model_validator(mode="after")
    def _file_where_needed(self) -> SubmitPoolRefreshOptions:
        if (self.resources == "file") != (self.file is not None):
            raise ValueError("file: needed with resources: file, and only there")
        return self


class NotRefreshedError(Refused):
    """The mapping stays as it is, because the resources cannot be read."""


class SubmitPoolRefreshAgent(Agent[SubmitPoolRefreshOptions]):
    """Evaluates all pools against the resources in force when a refresh is due."""

    name = "submit_pool_refresh"
    title = "which queues meet the requirements of SubmitPools"
    options_type = SubmitPoolRefreshOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Publish resources that have changed, and refresh the mapping when it is due or requested by hand."""
        started = perf_counter()
        version = self._version(context)
        restored = self._restore(context)
        with context.database.read_snapshot() as connection:
            state = refresh_state(connection)
            due = context.request.by_hand or state.is_due(context.now, self.options.refresh_every_s)
            if version is None or not due:
                counts = {"pools": 0, "restored": restored, "refreshed": 0}
                return CycleReport(counts, {"load_s": perf_counter() - started})
            mapping = new_mapping(connection, version.content.resources)
        context.check()
        loaded_s = perf_counter() - started
        counts = self._write(context, mapping, version) | {"restored": restored, "refreshed": 1}
        self._emit(context, mapping)
        notes = (
            *(f"resources: {finding}" for finding in version.findings[:20]),
            *(f"the definition of {pool} cannot be read; it keeps its queues" for pool in mapping.unreadable),
        )
        return CycleReport(counts, {"load_s": loaded_s, "write_s": perf_counter() - started - loaded_s}, notes)

    def _version(self, context: CycleContext) -> ResourceVersion | None:
        """The resources in force, after publishing those of the source; None when there is nothing to evaluate.

        Raises:
            NotRefreshedError: the resources cannot be read.
        """
        try:
            text = self._source_text(context)
            if text is not None and context.writes:
                with context.writing() as connection:
                    publish(connection, text, context.now)
            with context.database.read_snapshot() as connection:
                version, state = current(connection), refresh_state(connection)
        except BadResources as error:
            with context.database.read_snapshot() as connection:
                raise self._not_refreshed(refresh_state(connection), context, str(error)) from error
        if version is None and state.oldest is not None:
            raise self._not_refreshed(state, context, "no resources were ever published; broker pool resources FILE")
        return version

    def _source_text(self, context: CycleContext) -> ResourceText | None:
        if self.options.resources == "panda":
            with context.database.read_snapshot() as connection:
                return from_panda(connection, TableCatalogue.read(connection, context.database.names))
        if self.options.file is not None:
            return read_file(self.options.file)
        return None

    def _not_refreshed(self, state: RefreshState, context: CycleContext, why: str) -> NotRefreshedError:
        lasting_s = state.unrefreshed_s(context.now)
        what = "the mapping of SubmitPools is not refreshed and stays as it is"
        if lasting_s is not None and lasting_s >= MISSED_PERIODS * self.options.refresh_every_s:
            what = f"ALARM: {what}, for {lasting_s:.0f} s now ({MISSED_PERIODS} periods were missed)"
        return NotRefreshedError(what, why)

    def _restore(self, context: CycleContext) -> int:
        if not context.writes:
            return 0
        with context.writing() as connection:
            restored = restore_missing(connection, context.database.names, context.now)
        return restored

    def _write(self, context: CycleContext, mapping: Mapping, version: ResourceVersion) -> dict[str, int]:
        if not context.writes:
            return {"pools": len(mapping.pools), "queues": mapping.eligible.shape[1]}
        with context.writing() as connection:
            counts = write_mapping(connection, mapping, version.content.resources, version.id, context.now)
        return counts

    def _emit(self, context: CycleContext, mapping: Mapping) -> None:
        if context.request.emit is None:
            return
        for name, before, count in zip(mapping.names, mapping.before.tolist(), mapping.counts.tolist(), strict=True):
            context.request.emit({"pool": name, "queues": count, "queues_before": before})


def read_file(path: Path) -> ResourceText:
    """Read the resources in a file, whose suffix gives their kind.

    Raises:
        BadResources: the file cannot be read, or its suffix gives no kind.
    """
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise BadResources("the name of the file does not tell its kind", str(path), f"known are {', '.join(KINDS)}")
    try:
        return ResourceText(str(path), kind, path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadResources(f"the file cannot be read: {error}", str(path), "correct it") from error

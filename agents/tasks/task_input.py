"""The agent that reads the input of tasks that wait for it, so that chains of tasks go on by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pydantic import Field

from agents.feeds.rucio_connection import RucioOptions, connect
from agents.service.base import Agent, CycleContext, CycleReport
from agents.service.configuration import ProcessSettings
from agents.tasks.input_feeding import look_at
from agents.tasks.input_sources import InputSources
from broker.feeds.model.rucio.questions import Rucio
from broker.store.schema import migrate
from broker.tasks.statements.chains import due_feeds

IDLE_WITHIN_S = 300.0
"""A check of a dataset waits for Rucio between two statements."""


class TaskInputOptions(RucioOptions):
    """Options of the agent.

    Attributes:
        datasets_of_a_cycle: datasets checked in one cycle, longest wait first.
    """

    datasets_of_a_cycle: int = Field(default=1_000, ge=1)


class TaskInputAgent(Agent[TaskInputOptions]):
    """Takes files of input datasets as they come, and starts tasks whose input is there."""

    name = "task_input"
    title = "input of tasks that wait for it, of parents and of datasets that grow"
    options_type = TaskInputOptions

    def __init__(
        self,
        options: TaskInputOptions,
        process: ProcessSettings,
        connect: Callable[[RucioOptions], Rucio] = connect,
    ) -> None:
        """``connect``: opens the connection to Rucio, when a dataset is looked up there."""
        super().__init__(options, process)
        self._sources = InputSources(lambda: connect(options))

    def cycle(self, context: CycleContext) -> CycleReport:
        """Check the datasets that are due, each in a transaction of its own."""
        installation = migrate.check(context.database)
        if installation != migrate.STANDALONE or not self.process.makes_jobs(installation):
            return CycleReport(notes=("JEDI feeds its tasks itself",))
        names, most = context.database.names, self.options.datasets_of_a_cycle
        with context.database.read_snapshot() as connection:
            feeds = due_feeds(connection, names, context.now, most, context.request.task_ids)
        counts: Counter[str] = Counter(due=len(feeds), whole=0, grown=0, waiting=0, broken=0)
        for feed in feeds if context.writes else ():
            with context.writing(IDLE_WITHIN_S) as connection:
                outcomes = look_at(connection, names, self._sources, context.now, feed)
            counts.update(outcomes)
            for outcome in outcomes:
                if context.request.emit is not None:
                    message = {"jeditaskid": feed.jeditaskid, "dataset": feed.datasetname, "outcome": outcome}
                    context.request.emit(message)
            context.check()
        return CycleReport(dict(counts))

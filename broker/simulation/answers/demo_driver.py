"""Drive the demonstration grid step by step, in place of feeds, transfers, pilots, users and site admins."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime

from broker.domain.instants import naive
from broker.simulation.model.demo.arrivals import NextNumbers, arrival_tables
from broker.simulation.model.demo.facts import DemoFacts
from broker.simulation.model.demo.live_script import STEP_S, LiveJob, StepEvents, step_events
from broker.simulation.statements import live_grid
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.connection.transient import TRANSIENT_ERRORS
from broker.store.scenarios.load_dump import append
from broker.store.scenarios.scenario_file import Scenario

_log = logging.getLogger(__name__)


class DemoDriver:
    """Drives the loaded demonstration grid.

    Args:
        database: database with the grid.
        facts: facts that the grid was built from.
        seed: seed of all events.
        refreshed_at: the instant (aware) as of which the sources were loaded.
    """

    def __init__(self, database: Database, facts: DemoFacts, seed: int, refreshed_at: datetime) -> None:
        self._database, self._facts, self._seed = database, facts, seed
        self._refreshed_at, self._step = refreshed_at, 0

    def step(self, now: datetime) -> StepEvents:
        """Apply the next step at ``now`` (aware) in one transaction, and let tasks arrive in others.

        Raises:
            DatabaseUnavailable: the database does not answer; the step is repeated at the next call.
        """
        names = self._database.names
        with self._database.begin() as connection:
            jobs = [LiveJob(*row) for row in live_grid.read_jobs(connection, names)]
            events = step_events(self._facts, self._seed, self._step, jobs)
            if events.refreshes:
                live_grid.refresh_sources(connection, names, (now - self._refreshed_at).total_seconds(), now)
            live_grid.switch_queues(connection, names, events.switched, now)
            queue_of = {job.pandaid: job.queue for job in jobs}
            arrived = [(pandaid, queue_of[pandaid]) for pandaid in events.inputs]
            live_grid.bring_inputs(connection, TableCatalogue.read(connection, names), arrived, now)
            live_grid.start_jobs(connection, names, events.starts, now)
            live_grid.report_ends(connection, names, events.ends, now)
        if events.refreshes:
            self._refreshed_at = now
        self._step += 1
        for place in events.arrivals:
            self._arrive(place, now)
        return events

    def run(self, ending: threading.Event, now: Callable[[], datetime]) -> None:
        """Run steps at the pace of the demonstration by the clock ``now`` (aware), until ``ending`` is set."""
        while not ending.wait(STEP_S):
            try:
                self.step(now())
            except TRANSIENT_ERRORS as error:
                fields = {"step": self._step, "error": str(error)}
                _log.warning("step of the demonstration left out: database", extra={"fields": fields})

    def _arrive(self, place: int, now: datetime) -> None:
        with self._database.begin() as connection:
            numbers = NextNumbers(*live_grid.next_numbers(connection, self._database.names))
            tables = arrival_tables(self._facts, place, numbers, now, self._seed)
            arrived = Scenario.of({"now": naive(now).isoformat(), "tables": tables})
            append(self._database, connection, arrived)

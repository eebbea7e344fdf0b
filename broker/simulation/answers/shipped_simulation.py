"""The simulation shipped with the demonstration, so that its page has figures and curves from the beginning."""

from __future__ import annotations

import json

from broker import resources
from broker.simulation.answers.simulations import KIND
from broker.store.connection.database import Database
from broker.whatif.statements import runs

FILE = "config/demo/simulation.json"
SUBJECT = "demonstration"


def keep_shipped_simulation(database: Database) -> int | None:
    """Store the shipped simulation. Returns the number of its run, None if a simulation is already stored."""
    with database.begin() as connection:
        if runs.newest(connection, 1, kind=KIND):
            return None
        shipped = json.loads(resources.path(FILE).read_text(encoding="utf-8"))
        return runs.add_done(
            connection, KIND, shipped["asked"], SUBJECT, shipped["result"], shipped["cases"], shipped["took_s"]
        )

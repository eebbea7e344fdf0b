"""The simulation that the demonstration brings, so that its page has figures and curves from the beginning."""

from __future__ import annotations

import json

from broker import resources
from broker.simulation.answers.simulations import KIND
from broker.store.connection.database import Database
from broker.whatif.statements import runs

FILE = "config/demo/simulation.json"
SUBJECT = "demonstration"


def keep_shipped_simulation(database: Database) -> int | None:
    """Keep it; the number of its run, None where a simulation is kept already."""
    with database.begin() as connection:
        if runs.newest(connection, 1, kind=KIND):
            return None
        made = json.loads(resources.path(FILE).read_text(encoding="utf-8"))
        return runs.add_done(connection, KIND, made["asked"], SUBJECT, made["result"], made["cases"], made["took_s"])

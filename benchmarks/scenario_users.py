"""Assigns the work and the jobs of a synthetic grid to users, so that the analysis brokerage decides on them."""

from __future__ import annotations

import sqlalchemy as sa

from broker.store.connection.database import Database

GIVE_TO_USERS = (
    "UPDATE {panda}.jedi_tasks SET prodsourcelabel = 'user', gshare = 'User Analysis', nucleus = NULL, "
    "username = 'user' || jeditaskid % 200",
    "UPDATE {panda}.schedconfig_json SET data = jsonb_set(data::jsonb, '{{type}}', '\"unified\"')",
    "UPDATE {panda}.jobsactive4 SET gshare = 'User Analysis', produsername = 'user' || pandaid % 200",
    "UPDATE {panda}.jobsdefined4 SET gshare = 'User Analysis', produsername = 'user' || pandaid % 200",
)


def give_to_users(database: Database) -> None:
    """Assign all tasks and jobs of a scenario to 200 users, and let all queues run analysis."""
    with database.begin() as connection:
        for statement in GIVE_TO_USERS:
            connection.execute(sa.text(statement.format(panda=database.names.panda)))

"""Checks the names of the grid in task parameters: a task that names what does not exist would wait for ever."""

from __future__ import annotations

import sqlalchemy as sa

from broker.errors import did_you_mean
from broker.store.connection.tables import Names
from broker.tasks.model.values import BadParameter

_QUERIES = {
    "gshare": """SELECT name FROM {panda}.global_shares AS share
        WHERE NOT EXISTS (SELECT FROM {panda}.global_shares AS child WHERE child.parent = share.name)""",
    "nucleus": "SELECT site_name FROM {panda}.site",
    "site": "SELECT panda_queue FROM {panda}.schedconfig_json",
}


def check_name(connection: sa.Connection, names: Names, parameter: str, value: str) -> None:
    """Refuse a global share, nucleus or queue that does not exist; an installation that has none yet takes any.

    Raises:
        BadParameter: there is no such name.
    """
    known = sorted(str(name) for name in connection.scalars(sa.text(names.sql(_QUERIES[parameter]))))
    wanted = value.split(",") if parameter == "site" else [value]
    for name in wanted if known else ():
        if name.strip() not in known:
            shown = f"known are {', '.join(known[:10])}{' ...' if len(known) > 10 else ''}"
            raise BadParameter(parameter, name, "there is none of that name", did_you_mean(name, known, shown))

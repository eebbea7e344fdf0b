"""A scenario in a database with PanDA's own task buffer and client of Rucio over it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.store.scenarios.scenario_file import read_scenario
from panda import loading, task_buffer
from panda.installation import CLOCK
from panda.remote import Remote


@dataclass
class PandaSite:
    """One scenario with PanDA on it.

    Attributes:
        url: of the database.
        connection: PanDA's.
        buffer: PanDA's task buffer, as its brokers see it.
        ddm: PanDA's client of Rucio, likewise.
    """

    url: str
    connection: Any
    buffer: Any
    ddm: Any

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The answer to a query, in a transaction of its own."""
        with self.connection.cursor() as cursor:
            cursor.execute(query, values)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        self.connection.commit()
        return rows

    def run(self, statement: str, *values: Any) -> None:
        """A statement, committed."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
        self.connection.commit()


def open_site(url: str, content: dict[str, Any], home: Path) -> PandaSite:
    """Load a scenario into a database and put PanDA on it, at the time of the scenario.

    Args:
        url: of a database with empty tables, see :func:`panda.loading.make_tables`.
        content: of a scenario file.
        home: ``PANDA_HOME``, see :func:`panda.installation.prepare`.
    """
    from pandajedi.jediddm.AtlasDDMClient import AtlasDDMClient

    file = home / "scenario.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    scenario = read_scenario(file)
    loading.load_scenario(url, scenario)
    CLOCK.now = scenario.now.replace(tzinfo=None)
    connection = task_buffer.connect(url)
    task_buffer.fill_statistics(connection)
    task_buffer.load_rucio(connection, home)
    return PandaSite(url, connection, Remote(task_buffer.task_buffer(connection)), Remote(AtlasDDMClient(None)))

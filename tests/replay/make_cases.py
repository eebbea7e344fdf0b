"""Replace the stored cases: ``python -m tests.replay.make_cases``.

Run it after an intended change of a rule: review the previous output of ``pytest tests/replay``, then commit the files.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import sqlalchemy as sa

from benchmarks.columns import ColumnScenario
from benchmarks.scenario import make_scenario
from benchmarks.scenario_assigning import make_assigning_scenario
from benchmarks.scenario_users import GIVE_TO_USERS
from broker.cli.main import main
from broker.store.connection.database import Database
from broker.store.connection.embedded import EmbeddedServer
from broker.store.schema.migrate import upgrade

CASES = Path(__file__).parent / "cases"
SEED = 11

#: Cases missing from the grids: queues that are closed, or for short, long or pledged jobs; unusual tasks; a nucleus
#: that is down; input on tape; queues that lost jobs. The hash of the name selects queues and datasets.
VARIETY = (
    *(
        "UPDATE {panda}.schedconfig_json SET data = jsonb_set(data::jsonb, '{{" + field + "}}', '" + value + "') "
        "WHERE md5(panda_queue) LIKE '" + digit + "%'"
        for digit, field, value in (
            ("a", "status", '"brokeroff"'),
            ("b", "mintime", "90000"),
            ("c", "maxtime", "20000"),
            ("d", "pledgedcpu", "-1"),
            ("e", "jobseed", '"es"'),
        )
    ),
    "UPDATE {panda}.jedi_tasks SET ramcount = 900000 WHERE jeditaskid % 13 = 0",
    "UPDATE {panda}.jedi_tasks SET eventservice = 1 WHERE jeditaskid % 13 = 1",
    "UPDATE {panda}.jedi_tasks SET cputime = 900000 WHERE jeditaskid % 13 = 2",
    "UPDATE {panda}.jedi_tasks SET walltime = NULL, cputime = NULL WHERE jeditaskid % 13 = 3",
    "UPDATE {panda}.site SET state = 'DOWN' WHERE site_name = 'SITE-0003'",
    "UPDATE broker.dataset_replicas SET is_tape = true WHERE md5(name) LIKE 'a%'",
    "INSERT INTO broker.rebrokered_from SELECT jeditaskid, datasetid, panda_queue, '2026-08-01T11:00:00Z' "
    "FROM {panda}.jedi_datasets, {panda}.schedconfig_json WHERE jeditaskid % 13 = 4 AND md5(panda_queue) LIKE 'f%'",
)
#: Users whose own work counts, one of them above the share.
USERS = (
    *GIVE_TO_USERS,
    "UPDATE {panda}.jedi_tasks SET workinggroup = NULL",
    "UPDATE {panda}.jobsactive4 SET produsername = 'user1', prodsourcelabel = 'user' WHERE pandaid % 3 = 0",
)
SCENARIOS: dict[str, tuple[ColumnScenario, tuple[str, ...]]] = {
    "production_job": (make_scenario(90, 90, 2000, seed=3), ()),
    "analysis_job": (make_scenario(90, 90, 2000, seed=4), USERS),
    "production_task": (make_assigning_scenario(60, 12, 90, seed=5), ()),
}


def broker(database: Database, *arguments: str) -> None:
    """Run a command, which must succeed."""
    try:
        main(["--db", database.url, *arguments])
    except SystemExit as end:
        if end.code:
            raise


def make(brokerage: str, scenario: ColumnScenario, changes: tuple[str, ...], server: EmbeddedServer) -> None:
    """Run one cycle and write its snapshot and decisions."""
    with Database(server.start()) as database:
        with database.autocommit() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {brokerage}")
        url = sa.make_url(database.url).set(database=brokerage).render_as_string(hide_password=False)
    with Database(url) as database:
        upgrade(database)
        with database.begin() as connection:
            scenario.copy_into(Database.raw(connection), database.names)
            for statement in (*VARIETY, *changes):
                connection.execute(sa.text(statement.format(panda=database.names.panda)))
        broker(database, "config", "set", "CAP_RUNNING_USER_JOBS", "20", "--vo", "atlas", "--reason", "a case")
        broker(database, "run", brokerage, "--at", scenario.now, "--seed", str(SEED), "--json")
        broker(database, "snapshot", "export", str(CASES / f"{brokerage}.json.gz"), "--decisions")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        embedded_server = EmbeddedServer(Path(folder) / "home")
        try:
            for name in sys.argv[1:] or SCENARIOS:
                make(name, *SCENARIOS[name], embedded_server)
        finally:
            embedded_server.stop()

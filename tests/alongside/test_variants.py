"""PanDA's tables in the forms that they have at sites: each brokerage decides the same from all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agents.service import registry
from agents.service.base import CycleContext, CycleRequest
from agents.service.cycle import run_cycle
from agents.service.process import ProcessSettings
from broker import resources
from broker.demo.facts import facts_from_texts
from broker.demo.grid import build_scenario
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import REPLICA_TABLES, load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.schema import migrate
from tests.alongside.conftest import PARTITIONED, READ, VIEWS, least_role
from tests.answers.demo_database import NOON

BROKERAGES = ("production_task", "production_job", "analysis_job")
#: Columns with the type that they have elsewhere.
TYPES = {
    "schedconfig_json.data": "jsonb",
    "ddm_endpoint.detailed_status": "json",
    "ddm_endpoint.blacklisted": "char(1)",
    "ddm_endpoint.is_tape": "char(1)",
    "panda_ddm_relation.is_local": "char(1)",
    "panda_ddm_relation.default_read": "char(1)",
    "global_shares.throttled": "char(1)",
    "sw_tags.data": "text",
    "metrics.value_json": "jsonb",
    "task_evaluation.value_json": "json",
    "config.value_json": "json",
    "jedi_tasks.usejumbo": "varchar(1)",
    "jedi_dataset_contents.fsize": "numeric(20)",
    "jobsactive4.corecount": "integer",
}
#: PanDA's statistics with one row a job, as a view.
STATISTICS = """
CREATE VIEW doma_panda.{name} AS SELECT current_timestamp::timestamp AS ts, gshare, computingsite, jobstatus,
    currentpriority AS maxpriority, diskio / greatest(coalesce(nullif(corecount, 0), 1), 1) AS prorated_diskio_avg,
    1 AS njobs, 0 AS hs, vo, workqueue_id, resource_type, nucleus
FROM doma_panda.{jobs} WHERE computingsite IN (SELECT panda_queue FROM doma_panda.schedconfig_json)
"""


def demo() -> Scenario:
    texts = [path.read_text(encoding="utf-8") for path in sorted(resources.path("config/demo").glob("*.yaml"))]
    return Scenario.of(build_scenario(facts_from_texts(texts), NOON, 1, True))


def decided(database: Database, brokerage: str, **settings: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    agent = registry.make(brokerage, {}, ProcessSettings(**settings))
    record = run_cycle(
        agent, CycleContext(database, NOON, 0, 600.0, CycleRequest(None, True, True, found.append, by_hand=True))
    )
    assert record.outcome == "done", record
    return [
        {name: one[name] for name in ("jeditaskid", "datasetid", "outcome", "reason", "candidates")} for one in found
    ]


def reshape(database: Database) -> None:
    """Give the tables the forms of a PanDA database, with their rows, and take ours away."""
    with database.begin() as connection:

        def run(statement: str) -> None:
            connection.exec_driver_sql(statement)

        for column, kind in TYPES.items():
            table, name = column.split(".")
            run(f"ALTER TABLE doma_panda.{table} ALTER COLUMN {name} DROP DEFAULT")
            run(f"ALTER TABLE doma_panda.{table} ALTER COLUMN {name} TYPE {kind} USING {name}::text::{kind}")
        for table, column in PARTITIONED.items():
            whole = f"doma_panda.{table}"
            run(f"ALTER TABLE {whole} RENAME TO {table}_plain")
            run(f"CREATE TABLE {whole} (LIKE {whole}_plain INCLUDING DEFAULTS) PARTITION BY RANGE ({column})")
            run(f"CREATE TABLE {whole}_rest PARTITION OF {whole} DEFAULT")
            run(f"INSERT INTO {whole} SELECT * FROM {whole}_plain")
            run(f"DROP TABLE {whole}_plain CASCADE")
        for view in VIEWS:
            run(f"ALTER TABLE doma_panda.{view} RENAME TO {view}_rows")
            run(f"CREATE MATERIALIZED VIEW doma_panda.{view} AS SELECT * FROM doma_panda.{view}_rows")
        for name, jobs in (("jobs_share_stats", "jobsactive4"), ("jobsdefined_share_stats", "jobsdefined4")):
            run(f"DROP TABLE doma_panda.{name}")
            run(STATISTICS.format(name=name, jobs=jobs))
        run("DROP SCHEMA broker CASCADE")


@pytest.fixture
def both(make_database: Callable[..., Database]) -> Iterator[tuple[Database, Database]]:
    """The example grid standalone, and alongside PanDA for a role with the least rights."""
    scenario = demo()
    own, panda = make_database(), make_database()
    load(own, scenario)
    load(panda, scenario)
    reshape(panda)
    with least_role(panda) as connect:
        least = connect(*READ)
        assert migrate.upgrade(least).mode == migrate.BESIDE
        load(
            least,
            Scenario(scenario.now, {name: scenario.tables[name] for name in REPLICA_TABLES if name in scenario.tables}),
        )
        yield own, least


def test_every_brokerage_decides_the_same(both: tuple[Database, Database]) -> None:
    own, least = both
    for brokerage in BROKERAGES:
        wanted = decided(own, brokerage)
        assert decided(least, brokerage) == wanted and wanted
        assert any(one["outcome"] == "brokered" for one in wanted)
    by_statistics = decided(least, "production_job", job_statistics="panda")
    assert len(by_statistics) == len(decided(own, "production_job"))

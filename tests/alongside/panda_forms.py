"""Reshapes a database of ours, with its rows, into the forms that PanDA's tables have at sites.

Source: panda-database, pg_PANDA_TABLE.
"""

from __future__ import annotations

from broker.store.connection.database import Database
from tests.alongside.conftest import PARTITIONED, VIEWS

#: Columns whose type differs at sites, with that type.
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
    "jedi_dataset_contents.is_waiting": "char(1)",
    "jobsactive4.corecount": "integer",
}
#: Primary keys of partitioned tables include the partition key.
KEYS = {
    "jobsarchived4": "pandaid, modificationtime",
    "filestable4": "row_id, modificationtime",
    "metatable": "pandaid, modificationtime",
    "jedi_tasks": "jeditaskid",
    "jedi_datasets": "jeditaskid, datasetid",
    "jedi_dataset_contents": "jeditaskid, datasetid, fileid",
}
#: PanDA's statistics as a view with one row per job.
STATISTICS = """
CREATE VIEW doma_panda.{name} AS SELECT current_timestamp::timestamp AS ts, gshare, computingsite, jobstatus,
    currentpriority AS maxpriority, diskio / greatest(coalesce(nullif(corecount, 0), 1), 1) AS prorated_diskio_avg,
    1 AS njobs, 0 AS hs, vo, workqueue_id, resource_type, nucleus
FROM doma_panda.{jobs} WHERE computingsite IN (SELECT panda_queue FROM doma_panda.schedconfig_json)
"""
JOBS = ("jobsdefined4", "jobsactive4", "jobsarchived4")
#: Columns of jobs that are never NULL at sites: numbers default to 0, times to 1970.
NUMBERS = (
    "jobdefinitionid", "assignedpriority", "currentpriority", "attemptnr", "maxattempt", "maxcpucount", "maxdiskcount",
    "minramcount", "cpuconsumptiontime", "piloterrorcode", "exeerrorcode", "superrorcode", "ddmerrorcode",
    "brokerageerrorcode", "jobdispatchererrorcode", "taskbuffererrorcode", "nevents",
)  # fmt: skip
TIMES = ("creationtime", "modificationtime")
PARAMETERS = """
CREATE TABLE doma_panda.jobparamstable (pandaid bigint NOT NULL, modificationtime timestamp NOT NULL,
    jobparameters text, PRIMARY KEY (pandaid, modificationtime)) PARTITION BY RANGE (modificationtime);
CREATE TABLE doma_panda.jobparamstable_rest PARTITION OF doma_panda.jobparamstable DEFAULT;
INSERT INTO doma_panda.jobparamstable SELECT pandaid, modificationtime, 'x' FROM doma_panda.metatable
"""
#: Columns of jobs that only PanDA has.
FURTHER = ("prodserieslabel varchar(20) DEFAULT 'Rome'", "ipconnectivity char(5)", "jobparameters text",
           "metadata text", "ninputfiles integer")  # fmt: skip


def fill_jobs(database: Database) -> None:
    """Replace NULL by PanDA's defaults in the columns of jobs that are never NULL there."""
    zeros = [f"{name} = coalesce({name}, 0)" for name in NUMBERS]
    zeros += [f"{name} = coalesce({name}, '1970-01-01')" for name in TIMES]
    with database.begin() as connection:
        for table in JOBS:
            connection.exec_driver_sql(f"UPDATE doma_panda.{table} SET {', '.join(zeros)}")


def reshape(database: Database) -> None:
    """Give the tables the forms of a PanDA database, keep their rows, and drop our schema."""
    fill_jobs(database)
    statements = [*_types(), *_jobs(), *_partitions(), *PARAMETERS.split(";")]
    for view in VIEWS:
        statements.append(f"ALTER TABLE doma_panda.{view} RENAME TO {view}_rows")
        statements.append(f"CREATE MATERIALIZED VIEW doma_panda.{view} AS SELECT * FROM doma_panda.{view}_rows")
    for name, jobs in (("jobs_share_stats", "jobsactive4"), ("jobsdefined_share_stats", "jobsdefined4")):
        statements += [f"DROP TABLE doma_panda.{name}", STATISTICS.format(name=name, jobs=jobs)]
    with database.begin() as connection:
        for statement in (*statements, "DROP SCHEMA broker CASCADE"):
            connection.exec_driver_sql(statement)


def _types() -> list[str]:
    statements = []
    for column, kind in TYPES.items():
        table, name = column.split(".")
        statements.append(f"ALTER TABLE doma_panda.{table} ALTER COLUMN {name} DROP DEFAULT")
        statements.append(f"ALTER TABLE doma_panda.{table} ALTER COLUMN {name} TYPE {kind} USING {name}::text::{kind}")
    return statements


def _jobs() -> list[str]:
    statements = []
    for table in JOBS:
        defaults = {**dict.fromkeys(NUMBERS, "'0'"), **dict.fromkeys(TIMES, "'1970-01-01'")}
        changes = [f"ADD COLUMN {definition}" for definition in FURTHER]
        for name, value in defaults.items():
            changes += [f"ALTER COLUMN {name} SET DEFAULT {value}", f"ALTER COLUMN {name} SET NOT NULL"]
        statements.append(f"ALTER TABLE doma_panda.{table} {', '.join(changes)}")
    return statements


def _partitions() -> list[str]:
    """Tables partitioned by time get a second partition for the past: a row with a new time moves to the other one."""
    statements = []
    for table, column in {**PARTITIONED, "metatable": "modificationtime", "harvester_workers": "lastupdate"}.items():
        full_name = f"doma_panda.{table}"
        statements.append(f"ALTER TABLE {full_name} RENAME TO {table}_plain")
        partitioned = (
            f"CREATE TABLE {full_name} (LIKE {full_name}_plain INCLUDING DEFAULTS) PARTITION BY RANGE ({column})"
        )
        statements += [partitioned, f"CREATE TABLE {full_name}_rest PARTITION OF {full_name} DEFAULT"]
        if column == "modificationtime":
            bounds = "FOR VALUES FROM (MINVALUE) TO ('2026-08-01')"
            statements.append(f"CREATE TABLE {full_name}_ended PARTITION OF {full_name} {bounds}")
        statements.append(f"INSERT INTO {full_name} SELECT * FROM {full_name}_plain")
        if table in KEYS:
            statements.append(f"ALTER TABLE {full_name} ADD PRIMARY KEY ({KEYS[table]})")
        statements.append(f"DROP TABLE {full_name}_plain CASCADE")
    return statements

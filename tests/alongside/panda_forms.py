"""PanDA's tables in the forms that they have at sites, made of a database of ours with its rows.

Source: panda-database, pg_PANDA_TABLE.
"""

from __future__ import annotations

from broker.store.connection.database import Database
from tests.alongside.conftest import PARTITIONED, VIEWS

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
    "jedi_dataset_contents.is_waiting": "char(1)",
    "jobsactive4.corecount": "integer",
}
#: Keys of partitioned tables hold the column by which they are parted.
KEYS = {
    "jobsarchived4": "pandaid, modificationtime",
    "filestable4": "row_id, modificationtime",
    "metatable": "pandaid, modificationtime",
    "jedi_tasks": "jeditaskid",
    "jedi_datasets": "jeditaskid, datasetid",
    "jedi_dataset_contents": "jeditaskid, datasetid, fileid",
}
#: PanDA's statistics with one row a job, as a view.
STATISTICS = """
CREATE VIEW doma_panda.{name} AS SELECT current_timestamp::timestamp AS ts, gshare, computingsite, jobstatus,
    currentpriority AS maxpriority, diskio / greatest(coalesce(nullif(corecount, 0), 1), 1) AS prorated_diskio_avg,
    1 AS njobs, 0 AS hs, vo, workqueue_id, resource_type, nucleus
FROM doma_panda.{jobs} WHERE computingsite IN (SELECT panda_queue FROM doma_panda.schedconfig_json)
"""
JOBS = ("jobsdefined4", "jobsactive4", "jobsarchived4")
#: Of jobs never NULL: numbers are 0, times are 1970.
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
#: Columns of jobs that only PanDA knows.
FURTHER = ("prodserieslabel varchar(20) DEFAULT 'Rome'", "ipconnectivity char(5)", "jobparameters text",
           "metadata text", "ninputfiles integer")  # fmt: skip


def fill_jobs(database: Database) -> None:
    """Give the columns of jobs that PanDA never leaves NULL PanDA's own defaults."""
    zeros = [f"{name} = coalesce({name}, 0)" for name in NUMBERS]
    zeros += [f"{name} = coalesce({name}, '1970-01-01')" for name in TIMES]
    with database.begin() as connection:
        for table in JOBS:
            connection.exec_driver_sql(f"UPDATE doma_panda.{table} SET {', '.join(zeros)}")


def reshape(database: Database) -> None:
    """Give the tables the forms of a PanDA database, with their rows, and take ours away."""
    fill_jobs(database)
    statements = [*_types(), *_jobs(), *_partitions(), *PARAMETERS.split(";")]
    for view in VIEWS:
        statements.append(f"ALTER TABLE doma_panda.{view} RENAME TO {view}_rows")
        statements.append(f"CREATE MATERIALIZED VIEW doma_panda.{view} AS SELECT * FROM doma_panda.{view}_rows")
    for name, jobs in (("jobs_share_stats", "jobsactive4"), ("jobsdefined_share_stats", "jobsdefined4")):
        statements += [f"DROP TABLE doma_panda.{name}", STATISTICS.format(name=name, jobs=jobs)]
    with database.begin() as connection:
        for one in (*statements, "DROP SCHEMA broker CASCADE"):
            connection.exec_driver_sql(one)


def _types() -> list[str]:
    found = []
    for column, kind in TYPES.items():
        table, name = column.split(".")
        found.append(f"ALTER TABLE doma_panda.{table} ALTER COLUMN {name} DROP DEFAULT")
        found.append(f"ALTER TABLE doma_panda.{table} ALTER COLUMN {name} TYPE {kind} USING {name}::text::{kind}")
    return found


def _jobs() -> list[str]:
    found = []
    for table in JOBS:
        defaults = {**dict.fromkeys(NUMBERS, "'0'"), **dict.fromkeys(TIMES, "'1970-01-01'")}
        changes = [f"ADD COLUMN {one}" for one in FURTHER]
        for name, value in defaults.items():
            changes += [f"ALTER COLUMN {name} SET DEFAULT {value}", f"ALTER COLUMN {name} SET NOT NULL"]
        found.append(f"ALTER TABLE doma_panda.{table} {', '.join(changes)}")
    return found


def _partitions() -> list[str]:
    """Those by time have one that has ended: rows that are stamped move to another."""
    found = []
    for table, column in {**PARTITIONED, "metatable": "modificationtime", "harvester_workers": "lastupdate"}.items():
        whole = f"doma_panda.{table}"
        found.append(f"ALTER TABLE {whole} RENAME TO {table}_plain")
        parts = f"CREATE TABLE {whole} (LIKE {whole}_plain INCLUDING DEFAULTS) PARTITION BY RANGE ({column})"
        found += [parts, f"CREATE TABLE {whole}_rest PARTITION OF {whole} DEFAULT"]
        if column == "modificationtime":
            ended = "FOR VALUES FROM (MINVALUE) TO ('2026-08-01')"
            found.append(f"CREATE TABLE {whole}_ended PARTITION OF {whole} {ended}")
        found.append(f"INSERT INTO {whole} SELECT * FROM {whole}_plain")
        if table in KEYS:
            found.append(f"ALTER TABLE {whole} ADD PRIMARY KEY ({KEYS[table]})")
        found.append(f"DROP TABLE {whole}_plain CASCADE")
    return found

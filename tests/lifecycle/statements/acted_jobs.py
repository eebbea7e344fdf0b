"""A job with a file and its dataset, and two actions on the job."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from broker.lifecycle.model.jobs import LOST_HEARTBEAT
from broker.lifecycle.statements.actions import ActionContext, ActOutcome, JobAction, act
from broker.store.connection.database import Database
from broker.store.connection.tables import TableCatalogue
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from tests.store.small_work import NOW, all_rows

SEEN = datetime.fromisoformat("2026-07-30T08:00:00")
BACK = JobAction(5, "jobsactive4", "activated", SEEN, "Q", 1, "activated", "reassigned", 51, 200_000.0, 172_800.0)
LOST = JobAction(5, "jobsactive4", "running", SEEN, "Q", 1, "heartbeat", "failed", LOST_HEARTBEAT, 8000.0, 7200.0,
               error="jobdispatcher")  # fmt: skip


def job(pandaid: int = 5, **columns: Any) -> dict[str, Any]:
    defaults = {
        "jobstatus": "activated",
        "computingsite": "Q",
        "jeditaskid": 1,
        "prodsourcelabel": "managed",
        "lockedby": "jedi",
    }
    times = {"modificationtime": SEEN.isoformat(), "statechangetime": SEEN.isoformat(), "creationtime": "2026-07-29"}
    return {"pandaid": pandaid} | defaults | times | columns


def file(fileid: int = 100, datasetid: int = 10, pandaid: int | None = 5, **columns: Any) -> dict[str, Any]:
    defaults = {"type": "input", "status": "running", "proc_status": "queued", "lfn": f"f{fileid}", "nevents": 50}
    attempts = {"attemptnr": 0, "maxattempt": 3, "failedattempt": 0, "keeptrack": 1}
    return (
        {"jeditaskid": 1, "datasetid": datasetid, "fileid": fileid, "pandaid": pandaid} | defaults | attempts | columns
    )


def dataset(datasetid: int = 10, **columns: Any) -> dict[str, Any]:
    counters = {"nfiles": 9, "nfilestobeused": 9, "nfilesused": 4, "nfilesonhold": 2, "neventsused": 200}
    return {"jeditaskid": 1, "datasetid": datasetid, "type": "input", "datasetname": "mc:in"} | counters | columns


def store(database: Database, jobs: list[dict[str, Any]], files: list[dict[str, Any]], **tables: Any) -> None:
    rows = {"jedi_tasks": [{"jeditaskid": 1, "status": "running"}], "jedi_datasets": [dataset()]} | tables
    load(database, Scenario(NOW, {"jobsactive4": jobs, "jedi_dataset_contents": files} | rows), replace=True)


def do(database: Database, *moves: JobAction, standalone: bool = True) -> ActOutcome:
    with database.begin() as connection:
        catalogue = TableCatalogue.read(connection, database.names)
        return act(connection, moves, ActionContext(catalogue, "timeouts", 7, NOW, standalone))


def only_row(database: Database, table: str, condition: str = "true") -> dict[str, Any]:
    (row,) = all_rows(database, f"SELECT * FROM {table} WHERE {condition}")
    return row


def archived(database: Database) -> dict[str, Any]:
    assert (
        all_rows(database, "SELECT 1 FROM doma_panda.jobsactive4 UNION ALL SELECT 1 FROM doma_panda.jobsdefined4") == []
    )
    return only_row(database, "doma_panda.jobsarchived4")


def columns_of(row: dict[str, Any], names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names.split())


def counters(database: Database, datasetid: int = 10) -> tuple[Any, ...]:
    row = only_row(database, "doma_panda.jedi_datasets", f"datasetid = {datasetid}")
    return columns_of(row, "nfilesused nfilesfailed nfilesonhold neventsused")


def content(database: Database, fileid: int = 100) -> tuple[Any, ...]:
    row = only_row(database, "doma_panda.jedi_dataset_contents", f"fileid = {fileid}")
    return columns_of(row, "status proc_status attemptnr failedattempt pandaid")

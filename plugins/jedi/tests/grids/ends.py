"""Jobs to be ended, with their files: one or more for whatever PanDA treats in its own way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

NOW, SEEN = "2026-08-01T12:00:00", "2026-07-30T08:00:00"
Row = dict[str, Any]


@dataclass(frozen=True)
class End:
    """One job and how it ends.

    Attributes:
        pandaid: the job; its task has the same number.
        old_status: its jobstatus.
        code: kill code, or error code of the dispatcher.
        table: where it is.
        action: ``killed``, ``reassigned`` or ``failed``.
        task_status: of its task.
        event_service: whether the job is one of the event service, which ours leaves alone.
        job: further columns of the job.
        files: further columns of its input files, a file each.
    """

    pandaid: int
    old_status: str
    code: int
    table: str = "jobsactive4"
    action: str = "reassigned"
    task_status: str = "running"
    event_service: bool = False
    job: tuple[tuple[str, Any], ...] = ()
    files: tuple[tuple[tuple[str, Any], ...], ...] = ((),)

    @property
    def error(self) -> str:
        """The column of the error code."""
        return "jobdispatcher" if self.action == "failed" else "taskbuffer"


def _with(**columns: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(columns.items())


#: What a file may be when its job ends.
FILES = (
    _with(),
    _with(attemptnr=2, maxattempt=3),
    _with(failedattempt=2, maxfailure=3),
    _with(maxattempt=None, maxfailure=None, datasetid=2),
    _with(is_waiting="Y"),
    _with(is_waiting="Y", attemptnr=2, maxattempt=3),
    _with(proc_status="ready"),
    _with(proc_status=None),
    _with(keeptrack=None, status="finished"),
    _with(record_attemptnr=1),
    _with(lfn="x.lib.tgz"),
    _with(status="picked"),
    _with(type="pseudo_input", datasetid=5),
    _with(datasetid=2, maxattempt=3),
    _with(maxattempt=None, maxfailure=None, datasetid=2, pandaid=999),
)
D4: dict[str, Any] = {"table": "jobsdefined4"}
CASES: tuple[End, ...] = (
    End(1, "activated", 51, files=FILES),
    End(2, "assigned", 2, **D4, files=FILES),
    End(3, "pending", 4, **D4),
    End(4, "starting", 10, job=_with(jobsubstatus="was"), files=FILES),
    End(5, "holding", 51),
    End(6, "transferring", 2, files=FILES),
    End(7, "running", 51, action="killed"),
    End(8, "running", 100, action="failed", files=FILES),
    End(9, "starting", 100, action="failed"),
    End(10, "holding", 103, action="failed", job=_with(endtime="2026-07-30T07:00:00")),
    End(11, "sent", 102, action="failed"),
    End(12, "running", 101, action="failed", job=_with(piloterrordiag="disk full", starttime=SEEN)),
    End(13, "transferring", 104, action="failed", job=_with(prodsourcelabel="user", endtime=SEEN), files=FILES),
    End(14, "running", 100, action="failed", job=_with(starttime="2026-07-29T08:00:00", corecount=8)),
    *(End(20 + at, "activated", 51, task_status=status, files=FILES)
      for at, status in enumerate(("done", "finished", "failed", "broken", "aborted", "prepared", "pending",
                                   "exhausted", "scouting", "paused"))),
    End(30, "running", 100, action="failed", task_status="done"),
    End(31, "activated", 51, job=_with(lockedby=None)),
    End(32, "activated", 2, action="killed", job=_with(prodsourcelabel="user")),
    End(33, "defined", 51, **D4, job=_with(commandtopilot="tobekilled")),
    End(34, "activated", 51, job=_with(specialhandling="tq=1785571200,sj")),
    End(35, "activated", 51, files=()),
    *(End(40 + at, "activated", 51, event_service=True, job=_with(eventservice=at, specialhandling="eventservice"))
      for at in (1, 2, 3, 4, 5, 6)),
)  # fmt: skip

#: Merge jobs; the job that made what they merge has the next number.
MERGING = _with(processingtype="pmerge")
MERGES: tuple[End, ...] = (
    End(50, "activated", 2, job=MERGING),
    End(52, "activated", 51, job=MERGING),
    End(54, "activated", 10, job=MERGING),
    End(56, "running", 100, action="failed", job=MERGING),
    End(58, "running", 100, action="failed", job=MERGING, files=(_with(attemptnr=2),)),
    End(60, "activated", 51, job=MERGING, files=(_with(attemptnr=2),)),
    End(62, "pending", 4, **D4, job=MERGING, files=((), ())),
)
ENDS = CASES + MERGES


def content() -> dict[str, Any]:
    """The scenario with all these jobs."""
    tables: dict[str, list[Row]] = {}
    for number, one in enumerate(CASES):
        _case(tables, one, number)
    for number, one in enumerate(MERGES, start=len(CASES)):
        _merge(tables, one, number)
    queue = {"nickname": "Q", "status": "online", "corepower": 10.5}
    tables["schedconfig_json"] = [{"panda_queue": "Q", "data": queue}]
    return {"now": NOW, "tables": tables}


def _case(tables: dict[str, list[Row]], one: End, number: int) -> None:
    def add(table: str, **columns: Any) -> None:
        tables.setdefault(table, []).append(columns)

    task = one.pandaid
    add("jedi_tasks", jeditaskid=task, status=one.task_status, vo="atlas", prodsourcelabel="managed")
    kinds = {1: ("input", None), 2: ("input", 1), 3: ("output", None), 4: ("log", None), 5: ("pseudo_input", None),
             6: ("trn_output", None)}  # fmt: skip
    for dataset, (kind, master) in kinds.items():
        add("jedi_datasets", jeditaskid=task, datasetid=dataset, type=kind, masterid=master, datasetname=f"mc:{kind}",
            nfiles=40, nfilestobeused=40, nfilesused=30, nfilesfinished=0, nfilesfailed=0, nfilesonhold=20,
            nfileswaiting=5, nevents=0, neventsused=0, status="ready", modificationtime=SEEN)  # fmt: skip
    _job(tables, one, task, number, [dict(columns) for columns in one.files])


def _merge(tables: dict[str, list[Row]], one: End, number: int) -> None:
    """A merge job, and the job that waits for it."""
    to_merge = {
        "datasetid": 6,
        "type": "trn_output",
        "record_type": "input",
        "maxattempt": 3,
        "boundaryid": one.pandaid + 1,
    }
    files: list[Row] = [to_merge | dict(columns) | {"dispatchdblocktoken": "TOMERGE"} for columns in one.files]
    _case(tables, replace(one, files=()), number)
    made = len(tables["jedi_dataset_contents"])
    _job(tables, replace(one, files=()), one.pandaid, number, files, outputs=False)
    merged = [row for row in tables["jedi_dataset_contents"][made:]]
    waits = End(one.pandaid + 1, "merging", 0)
    _job(tables, waits, one.pandaid, number + 100, [{}])
    for at, row in enumerate(merged):
        tables["filestable4"].append({
            "row_id": 90_000 + number * 100 + at, "pandaid": waits.pandaid, "jeditaskid": one.pandaid, "datasetid": 6,
            "fileid": row["fileid"], "attemptnr": 0, "type": "output", "status": "merging", "lfn": row["lfn"],
            "destinationdblocktoken": "TOMERGE", "modificationtime": SEEN, "destinationdblock": "mc:sub",
        })  # fmt: skip


def _job(
    tables: dict[str, list[Row]], one: End, task: int, number: int, given: list[Row], outputs: bool = True
) -> None:
    def add(table: str, **columns: Any) -> None:
        tables.setdefault(table, []).append(columns)

    job: Row = {
        "pandaid": one.pandaid, "jeditaskid": task, "jobstatus": one.old_status, "computingsite": "Q",
        "prodsourcelabel": "managed", "lockedby": "jedi", "creationtime": "2026-07-29T08:00:00", "cloud": "WORLD",
        "modificationtime": SEEN, "statechangetime": SEEN, "processingtype": "simul", "eventservice": 0,
        "workinggroup": "AP_X", "produserid": "someone", "attemptnr": 1,
    } | dict(one.job)  # fmt: skip
    if outputs:
        add(one.table, **job)
        add("metatable", pandaid=one.pandaid, modificationtime=SEEN, metadata="{}")
        given = [*given, {"datasetid": 3, "type": "output", "status": "defined"}]
        given.append({"datasetid": 4, "type": "log", "status": "defined"})
    for at, columns in enumerate(given, start=0 if outputs else 50):
        file: Row = {
            "jeditaskid": task, "datasetid": 1, "fileid": number * 100 + at, "pandaid": one.pandaid, "type": "input",
            "status": "running", "proc_status": "queued", "lfn": f"f{number}.{at}", "attemptnr": 0, "maxattempt": 5,
            "failedattempt": 0, "maxfailure": 4, "keeptrack": 1, "nevents": 50,
        } | columns  # fmt: skip
        recorded = file.pop("record_attemptnr", file["attemptnr"])
        kind = file.pop("record_type", file["type"])
        token = {name: file.pop(name) for name in ("dispatchdblocktoken", "destinationdblocktoken") if name in file}
        add("jedi_dataset_contents", **file)
        add(
            "filestable4",
            row_id=number * 100 + at,
            pandaid=one.pandaid,
            jeditaskid=task,
            datasetid=file["datasetid"],
            fileid=file["fileid"],
            attemptnr=recorded,
            type=kind,
            status="unknown",
            lfn=file["lfn"],
            modificationtime=SEEN,
            **token,
        )

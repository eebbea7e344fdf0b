"""The unmodified PanDA pilot with ``broker serve --api``: jobs from their JDL to the end of their tasks."""

from __future__ import annotations

import json
import subprocess
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.real_pilot.installation import QUEUES, Installation, until
from tests.real_pilot.launcher import PilotLauncher, kill

GOOD = '#!/bin/sh\nsleep 1\n[ -z "$2" ] || echo hello > "$2"\n'
FAILING = "#!/bin/sh\nexit 3\n"
ENDLESS = "#!/bin/sh\nexec sleep 600\n"


def pilot_at(
    launcher: PilotLauncher, broker: Installation, queue: str, payload: str, folder: Path, worker: int
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run a pilot for one job at a queue, with ``payload`` as its program."""
    work, programs, storage = folder / "work", folder / "programs", folder / "storage"
    for subfolder in (work, programs, storage):
        subfolder.mkdir(parents=True)
    (programs / "runGen").write_text(payload, encoding="utf-8")
    (programs / "runGen").chmod(0o755)
    # a trailing line feed would break the header
    (folder / "token").write_text(broker.token, encoding="ascii")
    address = urlsplit(broker.url)
    environment = {
        "HOME": str(folder),
        "HARVESTER_ID": "tests",
        "HARVESTER_WORKER_ID": str(worker),
        "HARVESTER_WORKDIR": str(programs),
        "LOCAL_AGIS_SCHEDCONF": f"{broker.url}/cache/schedconfig/schedconfig.all.json",
        "OIDC_AUTH_TOKEN": str(folder / "token"),
        "OIDC_AUTH_ORIGIN": "atlas.pilot",
    }
    arguments = [
        "--pilot-user", "generic", "--url", f"http://{address.hostname}", "-p", str(address.port), "-q", queue,
        "-j", "user", "-a", str(work), "-v", "1", "-t", "--output-dir", str(storage), "--use-rucio-traces", "False",
        "--queuedata-url", f"{broker.url}/cache/schedconfig/{{pandaqueue}}.json",
        "--storagedata-url", f"{broker.url}/cache/ddmendpoints.json",
    ]  # fmt: skip
    return launcher.running(arguments, environment, folder)


def run_pilot(
    launcher: PilotLauncher, broker: Installation, queue: str, payload: str, folder: Path, worker: int
) -> None:
    """Run a pilot to its end; its exit status is independent of the result of its job."""
    with pilot_at(launcher, broker, queue, payload, folder, worker) as process:
        assert process.wait(420) == 0, (folder / "pilot.out").read_text(errors="replace")[-4000:]


def until_ended(broker: Installation, task: int) -> dict[str, Any]:
    """Wait until a task has ended; return its row."""

    def ended_task() -> dict[str, Any] | None:
        (row,) = broker.rows("SELECT * FROM doma_panda.jedi_tasks WHERE jeditaskid = :task", task=task)
        return row if row["status"] in ("done", "finished", "failed") else None

    return until(ended_task, 60, lambda: broker.jobs(task))


def datasets(broker: Installation, task: int) -> dict[str, tuple[int, int, int, int]]:
    """By type of dataset, the numbers of all, used, finished and failed files."""
    rows = broker.rows("SELECT * FROM doma_panda.jedi_datasets WHERE jeditaskid = :task", task=task)
    names = ("nfiles", "nfilesused", "nfilesfinished", "nfilesfailed")
    return {row["type"]: tuple(row[name] for name in names) for row in rows}  # type: ignore[misc]


def contents(broker: Installation, task: int) -> list[tuple[str, str]]:
    """Type and status of each file, in order of creation."""
    query = "SELECT type, status FROM doma_panda.jedi_dataset_contents WHERE jeditaskid = :task ORDER BY fileid"
    return [(row["type"], row["status"]) for row in broker.rows(query, task=task)]


def test_a_job_runs_from_its_jdl_to_the_end_of_its_task(
    launcher: PilotLauncher, installation: Installation, tmp_path: Path
) -> None:
    task = installation.submit("good", 'Arguments = "-o ${OUTPUT0}";', 'OutputData = {"hello.txt"};',
                               'OutputSandbox = {"std.out"};')  # fmt: skip
    job = installation.until_activated(task)
    assert job["computingsite"] in QUEUES
    run_pilot(launcher, installation, job["computingsite"], GOOD, tmp_path / "pilot", 1)
    assert until_ended(installation, task)["status"] == "done"
    (job,) = installation.jobs(task)
    assert (job["jobstatus"], job["piloterrorcode"] or 0, job["transexitcode"]) == ("finished", 0, "0")
    assert job["pilotid"].endswith("3.7.0.36")
    assert job["starttime"] <= job["endtime"]
    assert job["pilottiming"].count("|") == 5
    assert contents(installation, task) == [("pseudo_input", "finished"), ("output", "finished"), ("log", "finished")]
    assert datasets(installation, task) == {"pseudo_input": (1, 1, 1, 0), "output": (1, 0, 1, 0), "log": (1, 0, 1, 0)}
    query = "SELECT lfn, fsize, checksum, guid FROM doma_panda.filestable4 WHERE pandaid = :job AND type = 'output'"
    (output,) = installation.rows(query, job=job["pandaid"])
    assert (output["lfn"], output["fsize"], output["checksum"][:3]) == ("hello.txt", 6, "ad:")
    log = installation.rows("SELECT * FROM doma_panda.jobs_statuslog WHERE pandaid = :job", job=job["pandaid"])
    stages = [row["jobstatus"] for row in sorted(log, key=lambda row: row["modificationtime"])]
    assert stages == ["activated", "sent", "starting", "running", "holding", "finished"]


def test_a_failed_payload_is_retried_at_another_queue(
    launcher: PilotLauncher, installation: Installation, tmp_path: Path
) -> None:
    task = installation.submit("bad")
    first = installation.until_activated(task)
    run_pilot(launcher, installation, first["computingsite"], FAILING, tmp_path / "first", 2)
    second = installation.until_activated(task, jobs=2)
    assert second["computingsite"] == next(name for name in QUEUES if name != first["computingsite"])
    (failed_job, _) = installation.jobs(task)
    assert (failed_job["jobstatus"], failed_job["transexitcode"], failed_job["piloterrorcode"]) == ("failed", "3", 1305)
    assert datasets(installation, task) == {"pseudo_input": (1, 1, 0, 0)}
    run_pilot(launcher, installation, second["computingsite"], GOOD, tmp_path / "second", 3)
    assert until_ended(installation, task)["status"] == "done"
    assert datasets(installation, task) == {"pseudo_input": (1, 1, 1, 0)}
    query = "SELECT attemptnr, failedattempt FROM doma_panda.jedi_dataset_contents WHERE jeditaskid = :task"
    assert installation.rows(query, task=task) == [{"attemptnr": 1, "failedattempt": 1}]


def test_a_killed_pilot_is_a_lost_heartbeat(
    launcher: PilotLauncher, installation: Installation, tmp_path: Path
) -> None:
    task = installation.submit("lost")
    queue = installation.until_activated(task)["computingsite"]
    with pilot_at(launcher, installation, queue, ENDLESS, tmp_path / "pilot", 4) as process:

        def is_running() -> bool | None:
            assert process.poll() is None, (tmp_path / "pilot" / "pilot.out").read_text(errors="replace")[-4000:]
            return installation.jobs(task)[0]["jobstatus"] == "running" or None

        until(is_running, 120, lambda: installation.jobs(task))
        kill(process)
    now = datetime.now(UTC)
    for hours, is_timed_out in ((1, False), (3, True)):
        at = (now + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
        output = installation.broker("run", "timeouts", "--task", str(task), "--at", at, "--json")
        documents = [json.loads(line) for line in output.splitlines()]
        assert bool(documents) == is_timed_out, documents
    (job, *_) = installation.jobs(task)
    assert (job["jobstatus"], job["jobdispatchererrorcode"]) == ("failed", 100)
    second = installation.until_activated(task, jobs=2)
    assert second["attemptnr"] == 0

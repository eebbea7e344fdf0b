"""A small experiment: a broker, Rucio, and a plain pilot that fetches transformations and acts as the storage."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import uuid
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.real_pilot.installation import QUEUES, Installation, until
from tests.rucio.conftest import RucioServer

ENDPOINTS = tuple(f"{name}_DISK" for name in QUEUES)
WITHIN_S = 90
ENDED = ("done", "finished", "failed", "aborted")


@dataclass
class Experiment:
    """The parts of the experiment.

    Attributes:
        broker: the running broker.
        rucio: the Rucio server with input and output.
        token: the token of the pilot.
        storage: the folder with the files of all endpoints.
    """

    broker: Installation
    rucio: RucioServer
    token: str
    storage: Path

    def add_input(self, name: str, files: int) -> None:
        """Add a closed dataset at the first endpoint; each file contains its own name."""
        self.storage.mkdir(exist_ok=True)
        dids = []
        for number in range(files):
            lfn = f"{name}.{number:03d}.txt"
            content = f"{lfn}\n".encode()
            (self.storage / lfn).write_bytes(content)
            checksum = f"{zlib.adler32(content):08x}"
            dids.append({"scope": "mc", "name": lfn, "bytes": len(content), "adler32": checksum})
        client = self.rucio.client()
        client.add_dataset("mc", name)
        client.add_files_to_datasets([{"scope": "mc", "name": name, "rse": ENDPOINTS[0], "dids": dids}])
        client.close("mc", name)

    def status(self, task: int) -> str:
        """The status of a task."""
        (row,) = self.broker.rows("SELECT status FROM doma_panda.jedi_tasks WHERE jeditaskid = :task", task=task)
        return str(row["status"])

    def until_status(self, task: int, *statuses: str) -> str:
        """Let agents and pilots work until a task has one of the statuses; return that status."""

        def reached_status() -> str | None:
            status = self.status(task)
            if status in statuses:
                return status
            if status == "pending":
                # it was brokered before its input was located; the next attempt would come minutes later
                self.broker.broker("task", "try-now", str(task))
            for queue in QUEUES:
                self.run_jobs(queue)
            return None

        return until(
            reached_status, WITHIN_S, lambda: f"{self.status(task)} {self.broker.jobs(task)} {self._story(task)}"
        )

    def until_ended(self, task: int) -> str:
        """Let agents and pilots work until a task has ended; return its status."""
        return self.until_status(task, *ENDED)

    def until_jobs_wait(self, task: int, jobs: int) -> None:
        """Let agents work until the given number of jobs of a task wait for pilots."""

        def all_jobs_wait() -> bool | None:
            activated_jobs = [job for job in self.broker.jobs(task) if job["jobstatus"] == "activated"]
            return True if len(activated_jobs) == jobs else None

        until(all_jobs_wait, WITHIN_S, lambda: f"{self.broker.jobs(task)} {self._story(task)}")

    def run_jobs(self, queue: str) -> None:
        """Take the waiting jobs of a queue and run them one after the other."""
        with httpx.Client(base_url=self.broker.url, timeout=30) as client:
            while (job := self._post(client, "getJob", siteName=queue, prodSourceLabel="user", node="n1"))[
                "StatusCode"
            ] == 0:
                self._run(client, job, queue)

    def _run(self, client: httpx.Client, job: dict[str, Any], queue: str) -> None:
        identity = {"jobId": str(job["PandaID"]), "attemptNr": str(job["attemptNr"]), "siteName": queue, "node": "n1"}
        self._post(client, "updateJob", **identity, state="running")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            # a job presents no token
            script = httpx.get(job["transformation"])
            assert script.status_code == 200, script.text
            (folder / "runGen").write_bytes(script.content)
            (folder / "runGen").chmod(0o755)
            for lfn in filter(None, str(job["inFiles"]).split(",")):
                if (self.storage / lfn).exists():
                    os.symlink(self.storage / lfn, folder / lfn)
            line = f"./runGen {job['jobPars']}"
            result = subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S602
            (folder / str(job["logFile"])).write_text(result.stdout + result.stderr, encoding="utf-8")
            output_files = str(job["outFiles"]).split(",") if result.returncode == 0 else [str(job["logFile"])]
            files = {lfn: self._store(folder / lfn) for lfn in output_files}
        report = {"state": "finished"} if result.returncode == 0 else self._failure(result)
        self._post(client, "updateJob", **identity, **report, xml=json.dumps(files))

    def _failure(self, result: subprocess.CompletedProcess[str]) -> dict[str, str]:
        return {
            "state": "failed", "pilotErrorCode": "1305", "transExitCode": str(result.returncode),
            "pilotErrorDiag": (result.stdout + result.stderr)[-200:],
        }  # fmt: skip

    def _store(self, file: Path) -> dict[str, Any]:
        content = file.read_bytes()
        self.storage.mkdir(exist_ok=True)
        (self.storage / file.name).write_bytes(content)
        return {"guid": str(uuid.uuid4()), "fsize": len(content), "adler32": f"{zlib.adler32(content):08x}"}

    def _post(self, client: httpx.Client, method: str, **fields: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        answer = client.post(f"/server/panda/{method}", data=fields, headers=headers)
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def _story(self, task: int) -> object:
        return self.broker.story(task), (self.broker.folder / "serve.log").read_text(errors="replace")[-3000:]

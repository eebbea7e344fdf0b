"""A small experiment with a real Rucio: tasks submitted by command, agents run in turn, and plain pilots over HTTP.

The grid is ``tests.brokerages.small_grid`` with current time stamps, and its endpoints exist in Rucio.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa
import yaml

from agents.service import registry
from agents.service.base import CycleContext, CycleReport
from agents.service.configuration import ProcessSettings
from agents.service.cycle import open_run, run_cycle
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.service import leases
from broker.store.service.leases import LeaseTerms
from tests.brokerages import small_grid
from tests.cli.commands import Command, Outcome
from tests.rucio.conftest import RucioServer

QUEUES = ("ALPHA_MCORE", "BETA", "GAMMA_MCORE")
SITES = ("ALPHA", "BETA", "GAMMA")
PROFILE = "demo"
MOST_ROUNDS = 15
PilotReport = dict[str, str]
Payload = Callable[[dict[str, Any]], PilotReport | None]
"""Decides how a job ends: the fields its pilot reports with the state ``failed``, or None if the job finishes."""


def finish(job: dict[str, Any]) -> PilotReport | None:
    """Finish every job successfully."""
    return None


def load_grid(database: Database, now: datetime) -> None:
    """Load the grid into the database with time stamps ten minutes old."""
    stamp = (now - timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%S")
    text = json.dumps(dict(small_grid.scenario().tables)).replace(small_grid.FRESH, stamp)
    load(database, Scenario(now, json.loads(text)), replace=True)


@dataclass
class Experiment:
    """A database with a grid, a Rucio server, the API for pilots, and a clock.

    Attributes:
        database: the database of the installation.
        rucio: the Rucio server.
        pilots: a client of the API with a pilot's token.
        command: runs ``broker`` on the database.
        folder: holds temporary files.
        now: the instant of the next cycles; each round advances it by a minute.
        jobs_run: the jobs that pilots received, by PandaID.
    """

    database: Database
    rucio: RucioServer
    pilots: httpx.Client
    command: Command
    folder: Path
    now: datetime
    jobs_run: dict[int, dict[str, Any]] = field(default_factory=dict)

    def prepare(self) -> None:
        """Load the grid, and create its endpoints and the scope in Rucio."""
        load_grid(self.database, self.now)
        client = self.rucio.client()
        if "mc" not in set(client.list_scopes()):
            client.add_scope("root", "mc")
        for site in SITES:
            self.rucio.add_endpoint(f"{site}_DATADISK")
            client.set_local_account_limit("root", f"{site}_DATADISK", -1)

    def add_input(self, name: str, files: int) -> None:
        """Add a closed dataset of files at ALPHA."""
        client = self.rucio.client()
        dids = [
            {"scope": "mc", "name": f"{name}.{number:04d}", "bytes": 10**6, "adler32": f"{number:08x}"}
            for number in range(files)
        ]
        client.add_dataset("mc", name)
        client.add_files_to_datasets([{"scope": "mc", "name": name, "rse": "ALPHA_DATADISK", "dids": dids}])
        client.close("mc", name)

    def submit(self, name: str, parameters: dict[str, Any], *options: str) -> dict[str, Any]:
        """Submit a task from a file and return the answer of the command."""
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(parameters), encoding="utf-8")
        result = self.command("task", "submit", str(file), "--json", *options)
        assert result.status == 0, result.err
        return result.document

    def run_command(self, *arguments: str) -> Outcome:
        """Run a command that must succeed."""
        result = self.command(*arguments)
        assert result.status == 0, result.err
        return result

    def cycle(self, agent: str, **options: Any) -> CycleReport:
        """Run one cycle of an agent."""
        instance = registry.make(agent, options, ProcessSettings(profile=PROFILE))
        with self.database.begin() as connection:
            connection.execute(sa.text("DELETE FROM broker.leases"))
            lease = leases.acquire(connection, agent, "test", LeaseTerms(600.0, longest_s=900.0)).lease
        assert lease is not None
        context = CycleContext(
            self.database, self.now, 1, 120.0, lease=lease, run_id=open_run(self.database, agent, lease)
        )
        record = run_cycle(instance, context)
        assert record.outcome == "done", record.error
        return CycleReport(record.counts, notes=record.notes)

    def round(self, payload: Payload = finish) -> int:
        """Advance by a minute: run all agents, and pilots on all jobs; return how many jobs ended."""
        self.now += timedelta(minutes=1)
        rucio = {"rucio_config": str(self.rucio.configuration)}
        self.cycle("task_input", **rucio)
        self.cycle("rucio_replicas", requests_per_s=10_000, **rucio)
        self.cycle("production_job")
        self.cycle("activation")
        ended = sum(self.run_job(job, payload) for queue in QUEUES for job in self._jobs(queue))
        self.cycle("completion")
        self.cycle("rucio_output", **rucio)
        return ended

    def run(self, until: Callable[[], bool], payload: Payload = finish) -> None:
        """Run rounds until the condition holds."""
        for _ in range(MOST_ROUNDS):
            self.round(payload)
            if until():
                return
        waits = self.command("tasks").out
        raise AssertionError(f"it did not happen in {MOST_ROUNDS} rounds: {self.statuses()}\n{waits}")

    def _jobs(self, queue: str) -> Iterator[dict[str, Any]]:
        """Yield the jobs that a pilot at the queue gets, one after the other."""
        request = {"siteName": queue, "prodSourceLabel": "managed", "mem": "16000", "diskSpace": "100000", "node": "n1"}
        while (job := self._post("getJob", request))["StatusCode"] == 0:
            job["queue"] = queue
            self.jobs_run[job["PandaID"]] = job
            yield job

    def run_job(self, job: dict[str, Any], payload: Payload) -> int:
        """Run a job as its pilot would and report it; return 1, the number of jobs that ended."""
        attempt = {"jobId": str(job["PandaID"]), "attemptNr": str(job["attemptNr"]), "siteName": job["queue"]}
        self._post("updateJob", {**attempt, "state": "running"})
        failure, names = payload(job), job["outFiles"].split(",")
        if failure is None:
            outputs = {name: written_file(name) for name in names}
            report = {"state": "finished", "xml": json.dumps(outputs)}
        else:
            log = job["logFile"]
            report = {"state": "failed", "xml": json.dumps({log: written_file(log)}), **failure}
        answer = self._post("updateJob", {**attempt, **report})
        assert answer["StatusCode"] == 0, answer
        return 1

    def _post(self, method: str, fields: dict[str, str]) -> dict[str, Any]:
        response = self.pilots.post(f"/server/panda/{method}", data=fields)
        assert response.status_code == 200, response.text
        answer_fields: dict[str, Any] = response.json()
        return answer_fields

    def statuses(self) -> dict[int, str]:
        """Return the status of each task."""
        return dict(self.rows("SELECT jeditaskid, status FROM doma_panda.jedi_tasks ORDER BY 1"))

    def rows(self, query: str, **values: Any) -> list[Any]:
        """Return the rows of a query."""
        with self.database.begin() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query), values)]

    def dataset(self, name: str) -> tuple[bool, int]:
        """Return whether a dataset is open in Rucio, and how many files it has."""
        did = self.rucio.client().get_did("mc", name, dynamic_depth="FILE")
        return did["open"], did["length"]


def written_file(name: str) -> dict[str, Any]:
    """Return what a pilot reports about an output file, derived from its name."""
    number = zlib.crc32(name.encode())
    return {"guid": f"{number:032x}", "fsize": 1000 + number % 1000, "adler32": f"{number:08x}"}


def task(name: str, dataset: str | None, **overrides: Any) -> dict[str, Any]:
    """Return the parameters of a task that reads a dataset and writes ``mc.NUMBER.NAME``."""
    reads = [{"type": "template", "param_type": "input", "dataset": f"mc:{dataset}", "value": "--in=${IN/L}"}]
    writes = {
        "type": "template", "param_type": "output", "dataset": f"mc.$JEDITASKID.{name}",
        "value": f"--out={name}.$JEDITASKID._${{SN/P}}.root",
    }  # fmt: skip
    log = {
        "type": "template", "param_type": "log", "dataset": f"mc.$JEDITASKID.{name}.log",
        "value": f"{name}.$JEDITASKID._${{SN/P}}.log.tgz",
    }  # fmt: skip
    identity = {"taskName": name, "transPath": "/cvmfs/run.sh", "vo": "atlas", "userName": "ada", "nucleus": "ALPHA"}
    needs = {"coreCount": 8, "ramCount": 1000, "ramUnit": "MBPerCore", "gshare": small_grid.SHARE, "nFilesPerJob": 1}
    return {**identity, **needs, "jobParameters": [*(reads if dataset else []), writes], "log": log, **overrides}

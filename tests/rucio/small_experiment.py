"""A small experiment with a real Rucio: submitters at the command line, agents in turn, and plain pilots over HTTP.

The grid is that of ``tests.brokerages.small_grid`` as it would be now, with its endpoints at Rucio.
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
Said = dict[str, str]
Payload = Callable[[dict[str, Any]], Said | None]
"""How a job ends: what its pilot reports beside state failed; None: it finished."""


def finishes(job: dict[str, Any]) -> Said | None:
    """A payload that works."""
    return None


def load_grid(database: Database, now: datetime) -> None:
    """Put the grid into the database with stamps of ten minutes ago."""
    stamp = (now - timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%S")
    text = json.dumps(dict(small_grid.scenario().tables)).replace(small_grid.FRESH, stamp)
    load(database, Scenario(now, json.loads(text)), replace=True)


@dataclass
class Experiment:
    """A database with a grid, Rucio, the API for pilots, and the time.

    Attributes:
        database: of the installation.
        rucio: the server.
        pilots: a client of the API with a pilot's token.
        command: ``broker`` on the database.
        folder: for files.
        now: the instant of the next cycles; a round is a minute.
        made: jobs that pilots got, by number, as they got them.
    """

    database: Database
    rucio: RucioServer
    pilots: httpx.Client
    command: Command
    folder: Path
    now: datetime
    made: dict[int, dict[str, Any]] = field(default_factory=dict)

    def prepare(self) -> None:
        """Have the grid, and its endpoints and the scope at Rucio."""
        load_grid(self.database, self.now)
        client = self.rucio.client()
        if "mc" not in set(client.list_scopes()):
            client.add_scope("root", "mc")
        for site in SITES:
            self.rucio.add_endpoint(f"{site}_DATADISK")
            client.set_local_account_limit("root", f"{site}_DATADISK", -1)

    def add_input(self, name: str, files: int) -> None:
        """A closed dataset of files at ALPHA."""
        client = self.rucio.client()
        listed = [
            {"scope": "mc", "name": f"{name}.{number:04d}", "bytes": 10**6, "adler32": f"{number:08x}"}
            for number in range(files)
        ]
        client.add_dataset("mc", name)
        client.add_files_to_datasets([{"scope": "mc", "name": name, "rse": "ALPHA_DATADISK", "dids": listed}])
        client.close("mc", name)

    def submit(self, name: str, parameters: dict[str, Any], *options: str) -> dict[str, Any]:
        """Submit a task from a file; what the command answers."""
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(parameters), encoding="utf-8")
        told = self.command("task", "submit", str(file), "--json", *options)
        assert told.status == 0, told.err
        return told.document

    def told(self, *arguments: str) -> Outcome:
        """A command that succeeds."""
        found = self.command(*arguments)
        assert found.status == 0, found.err
        return found

    def cycle(self, agent: str, **options: Any) -> CycleReport:
        """One cycle of an agent."""
        made = registry.make(agent, options, ProcessSettings(profile=PROFILE))
        with self.database.begin() as connection:
            connection.execute(sa.text("DELETE FROM broker.leases"))
            lease = leases.acquire(connection, agent, "test", LeaseTerms(600.0, longest_s=900.0)).lease
        assert lease is not None
        context = CycleContext(
            self.database, self.now, 1, 120.0, lease=lease, run_id=open_run(self.database, agent, lease)
        )
        record = run_cycle(made, context)
        assert record.outcome == "done", record.error
        return CycleReport(record.counts, notes=record.notes)

    def round(self, payload: Payload = finishes) -> int:
        """A minute of the installation: all agents, and pilots that take what there is; how many jobs ended."""
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

    def run(self, until: Callable[[], bool], payload: Payload = finishes) -> None:
        """Rounds until something holds."""
        for _ in range(MOST_ROUNDS):
            self.round(payload)
            if until():
                return
        waits = self.command("tasks").out
        raise AssertionError(f"it did not happen in {MOST_ROUNDS} rounds: {self.statuses()}\n{waits}")

    def _jobs(self, queue: str) -> Iterator[dict[str, Any]]:
        """The jobs that a pilot at a queue gets, one after the other."""
        asked = {"siteName": queue, "prodSourceLabel": "managed", "mem": "16000", "diskSpace": "100000", "node": "n1"}
        while (job := self._post("getJob", asked))["StatusCode"] == 0:
            job["queue"] = queue
            self.made[job["PandaID"]] = job
            yield job

    def run_job(self, job: dict[str, Any], payload: Payload) -> int:
        """Run a job as its pilot does, and report it; 1."""
        about = {"jobId": str(job["PandaID"]), "attemptNr": str(job["attemptNr"]), "siteName": job["queue"]}
        self._post("updateJob", {**about, "state": "running"})
        failure, names = payload(job), job["outFiles"].split(",")
        if failure is None:
            written = {name: written_file(name) for name in names}
            said = {"state": "finished", "xml": json.dumps(written)}
        else:
            log = job["logFile"]
            said = {"state": "failed", "xml": json.dumps({log: written_file(log)}), **failure}
        answer = self._post("updateJob", {**about, **said})
        assert answer["StatusCode"] == 0, answer
        return 1

    def _post(self, method: str, fields: dict[str, str]) -> dict[str, Any]:
        answer = self.pilots.post(f"/server/panda/{method}", data=fields)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def statuses(self) -> dict[int, str]:
        """The status of each task."""
        return dict(self.rows("SELECT jeditaskid, status FROM doma_panda.jedi_tasks ORDER BY 1"))

    def rows(self, query: str, **values: Any) -> list[Any]:
        """Rows of the database."""
        with self.database.begin() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query), values)]

    def dataset(self, name: str) -> tuple[bool, int]:
        """Whether a dataset is open at Rucio, and how many files are in it."""
        about = self.rucio.client().get_did("mc", name, dynamic_depth="FILE")
        return about["open"], about["length"]


def written_file(name: str) -> dict[str, Any]:
    """What a pilot reports of a file; it follows from the name."""
    number = zlib.crc32(name.encode())
    return {"guid": f"{number:032x}", "fsize": 1000 + number % 1000, "adler32": f"{number:08x}"}


def task(name: str, dataset: str | None, **given: Any) -> dict[str, Any]:
    """Parameters of a task that reads a dataset, and writes ``mc.NUMBER.NAME``."""
    reads = [{"type": "template", "param_type": "input", "dataset": f"mc:{dataset}", "value": "--in=${IN/L}"}]
    writes = {
        "type": "template", "param_type": "output", "dataset": f"mc.$JEDITASKID.{name}",
        "value": f"--out={name}.$JEDITASKID._${{SN/P}}.root",
    }  # fmt: skip
    log = {
        "type": "template", "param_type": "log", "dataset": f"mc.$JEDITASKID.{name}.log",
        "value": f"{name}.$JEDITASKID._${{SN/P}}.log.tgz",
    }  # fmt: skip
    about = {"taskName": name, "transPath": "/cvmfs/run.sh", "vo": "atlas", "userName": "ada", "nucleus": "ALPHA"}
    needs = {"coreCount": 8, "ramCount": 1000, "ramUnit": "MBPerCore", "gshare": small_grid.SHARE, "nFilesPerJob": 1}
    return {**about, **needs, "jobParameters": [*(reads if dataset else []), writes], "log": log, **given}

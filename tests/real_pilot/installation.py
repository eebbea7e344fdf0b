"""A separate installation with two queues, run by ``broker serve --api``, and jobs described in JDL."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario

Found = TypeVar("Found")

QUEUES = ("GRID_A", "GRID_B")
EXECUTABLE = "http://pandaserver-doma.cern.ch:25080/trf/user/runGen"
"""A URL that the pilot accepts: it copies ``runGen`` from its work directory and downloads nothing."""
# The tests run the agent ``timeouts`` themselves, at a given time.
AGENTS = ("production_job", "analysis_job", "activation", "completion", "pilot_activity")
START_WITHIN_S = 90.0
LOOK_EVERY_S = 0.25


@dataclass
class Installation:
    """A broker that serves pilots.

    Attributes:
        database: the database of the installation.
        url: the address of its API.
        token: the token for the API.
        folder: the folder with its configuration.
    """

    database: Database
    url: str
    token: str
    folder: Path

    def submit(self, name: str, *lines: str) -> int:
        """Submit a job of a user; return the number of its task."""
        text = f'[ JobName = "{name}"; Executable = "{EXECUTABLE}"; {" ".join(lines)} ]'
        file = self.folder / f"{name}.jdl"
        file.write_text(text, encoding="utf-8")
        output = self.broker("submit", str(file), "--label", "user", "--user", "ann", "--json")
        return int(json.loads(output)["jeditaskid"])

    def broker(self, *arguments: str) -> str:
        """The output of a command."""
        command = [sys.executable, "-m", "broker.cli.entry", *arguments]
        result = subprocess.run(
            command, env=environment(self.database, self.folder), capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    def rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        """The rows of a query."""
        with self.database.read_snapshot() as connection:
            return [dict(row) for row in connection.execute(sa.text(statement), values).mappings()]

    def jobs(self, task: int) -> list[dict[str, Any]]:
        """All jobs of a task in order of creation."""
        tables = ("jobsdefined4", "jobsactive4", "jobsarchived4")
        parts = " UNION ALL ".join(f"SELECT * FROM doma_panda.{table}" for table in tables)
        return self.rows(f"SELECT * FROM ({parts}) AS job WHERE jeditaskid = :task ORDER BY pandaid", task=task)

    def until_activated(self, task: int, jobs: int = 1) -> dict[str, Any]:
        """The newest job of a task, once the given number exists and the newest waits for a pilot."""

        def newest_waiting_job() -> dict[str, Any] | None:
            created_jobs = self.jobs(task)
            return (
                created_jobs[-1] if len(created_jobs) == jobs and created_jobs[-1]["jobstatus"] == "activated" else None
            )

        return until(newest_waiting_job, 60, lambda: f"{self.jobs(task)} {self.story(task)}")

    def story(self, task: int) -> list[dict[str, Any]]:
        """The decisions about a task."""
        return self.rows("SELECT brokerage, outcome, reason FROM broker.decisions WHERE jeditaskid = :task", task=task)


def until(condition: Callable[[], Found | None], within_s: float, about: Callable[[], object]) -> Found:
    """Wait until a condition returns a value; return that value."""
    deadline = time.monotonic() + within_s
    pause = threading.Event()
    while (value := condition()) is None:
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {about()}"
        pause.wait(LOOK_EVERY_S)
    return value


@contextlib.contextmanager
def serve_installation(
    database: Database,
    folder: Path,
    agents: Mapping[str, Mapping[str, Any]] | None = None,
    api: Mapping[str, Any] | None = None,
) -> Iterator[Installation]:
    """Run an installation with its grid during the block.

    Args:
        database: the database of the installation.
        folder: the folder for its configuration.
        agents: the agents to run, with their options; None: the agents needed for jobs described in JDL.
        api: the content of ``api.yaml`` with issuers, so that no local token exists; None: no such file.
    """
    load(database, grid(datetime.now(UTC)))
    schedule = {"period_s": 1, "cycle_budget_s": 60, "misfire_grace_s": 60}
    selected_agents: Mapping[str, Mapping[str, Any]] = {name: {} for name in AGENTS} if agents is None else agents
    sections = {name: {**schedule, "options": dict(options)} for name, options in selected_agents.items()}
    if api is not None:
        (folder / "api.yaml").write_text(json.dumps(api), encoding="utf-8")
    # JSON is YAML
    (folder / "agents.yaml").write_text(json.dumps({"agents": sections}), encoding="utf-8")
    command = [sys.executable, "-m", "broker.cli.entry", "serve", "--api", "0"]
    with (folder / "serve.out").open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment(database, folder),
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            url = _url(process, folder)
            token = (folder / "home" / "api-token").read_text(encoding="ascii").strip() if api is None else ""
            yield Installation(database, url, token, folder)
        finally:
            process.terminate()
            process.wait(60)


def environment(database: Database, folder: Path) -> dict[str, str]:
    """The environment variables of commands."""
    own_variables = {
        "BROKER_DATABASE_URL": database.url,
        "BROKER_CONFIG": str(folder),
        "BROKER_HOME": str(folder / "home"),
    }
    return {**os.environ, **own_variables}


def _url(process: subprocess.Popen[str], folder: Path) -> str:
    """The address that the broker prints; all its output is written to a file."""
    addresses: queue.Queue[str] = queue.Queue()
    stream = process.stderr
    assert stream is not None

    def follow() -> None:
        with stream, (folder / "serve.log").open("w", encoding="utf-8") as log:
            for line in stream:
                log.write(line)
                log.flush()
                if line.startswith("API: "):
                    addresses.put(line.split()[1].removesuffix("/api/v1"))

    threading.Thread(target=follow, daemon=True).start()
    return addresses.get(timeout=START_WITHIN_S)


def grid(now: datetime) -> Scenario:
    """Two queues with one core, each with its own storage."""
    fresh = (now - timedelta(minutes=1)).replace(tzinfo=None).isoformat()
    storages = {name: f"{name}_DISK" for name in QUEUES}
    relation = {"is_local": "Y", "roles": "read_lan,write_lan", "order_read": 1, "order_write": 1, "scope": "default"}
    tables: dict[str, list[dict[str, Any]]] = {
        "site": [{"site_name": name, "role": "nucleus"} for name in QUEUES],
        "panda_site": [{"panda_site_name": name, "site_name": name} for name in QUEUES],
        "schedconfig_json": [
            {"panda_queue": name, "data": _queue(name, storages[name]), "last_update": fresh} for name in QUEUES
        ],
        "ddm_endpoint": [
            {"ddm_endpoint_name": storages[name], "site_name": name, "type": "DATADISK", "is_tape": "N"}
            | {"space_total": 10_000, "space_free": 5_000, "space_timestamp": fresh, "detailed_status": {}}
            for name in QUEUES
        ],
        "panda_ddm_relation": [
            {"panda_site_name": name, "ddm_endpoint_name": storages[name], "default_read": "Y", "default_write": "Y"}
            | relation
            for name in QUEUES
        ],
        "resource_types": [{"resource_name": "SCORE", "mincore": 1, "maxcore": 1, "maxrampercore": 2000}],
        "sitedata": [
            {"site": name, "flag": "production", "hours": 3, "getjob": 5, "updatejob": 5, "lastmod": fresh}
            for name in QUEUES
        ],
    }
    return Scenario(now, tables)


def _queue(name: str, storage: str) -> dict[str, Any]:
    roles = ("pr", "pw", "pl", "default")
    return {
        "nickname": name, "panda_resource": name, "atlas_site": name, "state": "ACTIVE", "status": "online",
        "type": "unified", "cloud": "XX", "capability": "score", "corecount": 1, "corepower": 10, "maxrss": 16000,
        "minrss": 0, "maxtime": 345600, "mintime": 0, "maxwdir": 20000, "releases": ["ANY"], "catchall": "",
        "params": {}, "timefloor": 0, "copytools": {"mv": {"setup": ""}},
        "acopytools": {role: ["mv"] for role in roles}, "astorages": {role: [storage] for role in roles},
    }  # fmt: skip

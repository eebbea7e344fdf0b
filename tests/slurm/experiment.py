"""A separate installation with one site, whose queue is a partition of a Slurm on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.docs.source_tree import ROOT
from tests.slurm.slurm_cluster import SlurmCluster

SITES = """\
sites:
  HERE:
    storage:
      HERE_DISK: {total_tb: 500, free_tb: 200}
    queues:
      HERE_SLURM:
        batch: {kind: slurm, address: main}
        cores: 1
        memory_mb: 2000
        walltime_h: 72
"""
PAYLOAD = """\
#!/bin/sh
# writes what it is told to write, after a while
sleep "$1"
echo "$HARVESTER_WORKER_ID" > "${2#--out=}"
"""
PERIODS_S = {
    "production_task": 1, "production_job": 1, "analysis_job": 1, "activation": 1, "completion": 1, "pilot_activity": 5,
    "pilot_demand": 1, "submitter": 2, "task_input": 2,
}  # fmt: skip
START_WITHIN_S = 90.0


class SlurmExperiment:
    """A broker with the submitter agent, and the Slurm to which it submits."""

    def __init__(self, database: Database, cluster: SlurmCluster, folder: Path) -> None:
        self.database, self.cluster, self.folder = database, cluster, folder
        self.url = ""
        self._service: subprocess.Popen[bytes] | None = None
        self.config = folder / "config"
        payload = folder / "payload.sh"
        payload.write_text(PAYLOAD, encoding="utf-8")
        payload.chmod(0o755)
        (folder / "sites.yaml").write_text(SITES, encoding="utf-8")
        self.broker("init", "--vo", "myexp", "--folder", str(self.config))
        self.broker("import", "sites", str(folder / "sites.yaml"))

    def configure(self, **extra_sections: Any) -> None:
        """Write the configuration of the agents and of the submission of pilots."""
        queue = {
            "executor": "slurm", "batch_queue": "main", "most_waiting": 4, "most_pilots": 8, "memory_mb": 200,
            "command": [sys.executable, str(ROOT / "config/plain_pilot.py"), self.url, "{queue}",
                        str(self.folder / "home" / "api-token")],
        }  # fmt: skip
        options = {
            "folder": str(self.folder / "pilots"), "queues": {"HERE_SLURM": queue}, "poll_s": 1, "settle_s": 8,
            "lost_after_s": 10,
        }  # fmt: skip
        sections: dict[str, Any] = {
            name: {"enabled": True, "period_s": period, "cycle_budget_s": 60, "misfire_grace_s": 30}
            for name, period in PERIODS_S.items()
        }
        sections["submitter"]["options"] = options
        for name, section in extra_sections.items():
            sections[name] = section
        self.config.joinpath("agents.yaml").write_text(json.dumps({"agents": sections}), encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        variables = {"BROKER_DATABASE_URL": self.database.url, "BROKER_CONFIG": str(self.config)}
        variables |= {"BROKER_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT)}
        return {**self.cluster.environment, **variables}

    def broker(self, *arguments: str) -> str:
        """The output of a command."""
        command = [sys.executable, "-m", "broker.cli.entry", *arguments]
        result = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=120)
        assert result.returncode == 0, f"{arguments}: {result.returncode} {result.stderr} {result.stdout}"
        return result.stdout

    def serve(self, port: int, **environment: str) -> None:
        """Start the service."""
        self.url = f"http://127.0.0.1:{port}"
        self.configure()
        with (self.folder / "serve.log").open("ab") as log:
            self._service = subprocess.Popen(
                [sys.executable, "-m", "broker.cli.entry", "serve", "--api", str(port)],
                env={**self.environment, **environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill the service with SIGKILL."""
        assert self._service is not None
        self._service.kill()
        self._service.wait(30)

    def has_died(self) -> bool:
        """Whether the service has ended by itself."""
        return self._service is not None and self._service.poll() is not None

    def stop(self) -> None:
        """Stop the service as an operator does."""
        if self._service is not None and self._service.poll() is None:
            self._service.terminate()
            self._service.wait(60)

    def submit(self, name: str, jobs: int, seconds: float = 1, **changes: Any) -> int:
        """Submit a task whose jobs each write one file; return its number."""
        output = {
            "type": "template", "param_type": "output", "dataset": f"user.{name}",
            "value": f"--out={name}.$JEDITASKID._${{SN/P}}.txt",
        }  # fmt: skip
        log = {
            "type": "template", "param_type": "log", "dataset": f"user.{name}.log",
            "value": f"{name}.$JEDITASKID._${{SN/P}}.log.tgz",
        }  # fmt: skip
        document = {
            "taskName": name, "userName": "me", "noInput": True, "transPath": str(self.folder / "payload.sh"),
            "processingType": "simul", "nEvents": jobs, "nEventsPerJob": 1, "ramCount": 100, "maxAttempt": 10,
            "jobParameters": [{"type": "constant", "value": str(seconds)}, output], "log": log,
        }  # fmt: skip
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps({**document, **changes}), encoding="utf-8")
        return int(json.loads(self.broker("task", "submit", str(file), "--json"))["jeditaskid"])

    def rows(self, statement: str, **values: Any) -> list[Any]:
        """The rows of a query."""
        with self.database.read_snapshot() as connection:
            return [tuple(row) for row in connection.execute(sa.text(statement), values)]

    def status(self, task: int) -> str:
        """The status of a task."""
        return str(self.rows("SELECT status FROM doma_panda.jedi_tasks WHERE jeditaskid = :task", task=task)[0][0])

    def until(self, holds: Callable[[], Any], within_s: float) -> None:
        """Wait until a condition holds."""
        deadline, pause = time.monotonic() + within_s, threading.Event()
        while not holds():
            assert time.monotonic() < deadline, self.story()
            pause.wait(0.5)

    def story(self) -> str:
        """The state of the experiment, for the message of a failure."""
        queries = (
            "SELECT jobstatus, count(*) FROM doma_panda.jobsactive4 GROUP BY 1",
            "SELECT jobstatus, count(*) FROM doma_panda.jobsdefined4 GROUP BY 1",
            "SELECT jobstatus, count(*) FROM doma_panda.jobsarchived4 GROUP BY 1",
            "SELECT state, outcome, detail, count(*) FROM broker.submitted_pilots GROUP BY 1, 2, 3",
            "SELECT panda_queue, resource_type, wanted, reason, misfits, waiting FROM broker.pilot_demand",
            "SELECT agent, outcome, error, counts FROM broker.agent_runs ORDER BY id DESC LIMIT 12",
            "SELECT jeditaskid, status, errordialog FROM doma_panda.jedi_tasks",
        )
        parts = [f"{query}: {self.rows(query)}" for query in queries]
        pilots = sorted(self.folder.glob("pilots/*.err"), key=os.path.getmtime)[-1:]
        parts += [path.read_text()[-800:] for path in pilots]
        return "\n".join([*parts, self.cluster.output_of("squeue"), (self.folder / "serve.log").read_text()[-1500:]])

"""A chain of three tasks with 200 jobs: inputs from Rucio, outputs into Rucio, and manual retries of failed jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.api.process import serving
from broker.api.server import ListenOptions
from broker.store.connection.database import Database
from tests.cli.commands import runner
from tests.pilots.panda.pilot_grid import AGENT
from tests.rucio.conftest import RucioServer
from tests.rucio.small_experiment import Experiment, PilotReport, task


@pytest.fixture
def experiment(
    rucio: RucioServer, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Experiment]:
    command = runner(capsys, "--db", database.url)
    now = datetime.now(UTC).replace(microsecond=0)
    with (
        serving(database, ListenOptions(port=0), home=tmp_path / "home", folder=None) as running,
        httpx.Client(
            base_url=running.server.url, headers={**AGENT, "authorization": f"Bearer {running.token}"}, timeout=30
        ) as pilots,
    ):
        prepared = Experiment(database, rucio, pilots, command, tmp_path, now)
        prepared.prepare()
        yield prepared


BROKEN = {"pilotErrorCode": "1305", "pilotErrorDiag": "payload stopped at event 7", "transExitCode": "65"}
TOO_LARGE = {"pilotErrorCode": "1212", "pilotErrorDiag": "payload ran out of memory"}
FIRST_MB = 8_000


def payload(job: dict[str, Any]) -> PilotReport | None:
    """Fail two jobs of the last task at their first attempt: one breaks, one needs more than 1 GB for each core."""
    if not job["outFiles"].startswith("tracks.") or int(job["minRamCount"]) > FIRST_MB:
        return None
    endings = {"._000009.root": TOO_LARGE, "._000011.root": BROKEN}
    return next((report for ending, report in endings.items() if job["inFiles"].endswith(ending)), None)


def test_a_chain_of_three_tasks_with_200_jobs(experiment: Experiment) -> None:
    experiment.add_input("raw", 100)
    hits = experiment.submit("hits", task("hits", "raw"))["jeditaskid"]
    submitted_digits = experiment.submit("digits", task("digits", f"mc.{hits}.hits", nFilesPerJob=2, parentTaskID=hits))
    digits = submitted_digits["jeditaskid"]
    tracks_parameters = task("tracks", f"mc.{digits}.digits", parentTaskID=digits, maxAttempt=1)
    tracks = experiment.submit("tracks", tracks_parameters)["jeditaskid"]
    waste = experiment.submit("waste", task("waste", None), "--count", "5")["jeditaskid"]
    experiment.run_command("task", "kill", str(waste), "--reason", "a typing error")
    expected_statuses = {hits: "done", digits: "done", tracks: "finished", waste: "aborted"}
    experiment.run(lambda: experiment.statuses() == expected_statuses, payload)
    experiment.round(payload)
    assert len(experiment.jobs_run) == 200, "the killed task had none"
    assert experiment.dataset(f"mc.{tracks}.tracks") == (False, 48), "two files have no attempt left"

    (failed,) = [pandaid for pandaid in experiment.jobs_run if payload(experiment.jobs_run[pandaid]) is BROKEN]
    text = experiment.run_command("job", str(failed)).out
    assert "1305" in text and "payload stopped at event 7" in text

    experiment.run_command("task", "retry", str(tracks), "--set", "ramCount=2000", "--reason", "it needs more memory")
    experiment.run(lambda: experiment.statuses()[tracks] == "done", payload)
    experiment.round(payload)
    outputs = {f"mc.{hits}.hits": 100, f"mc.{digits}.digits": 50, f"mc.{tracks}.tracks": 50}
    logs = {f"mc.{hits}.hits.log": 100, f"mc.{digits}.digits.log": 50, f"mc.{tracks}.tracks.log": 52}
    for name, files in {**outputs, **logs}.items():
        assert experiment.dataset(name) == (False, files), name
    inputs_read = set().union(*(job["inFiles"].split(",") for job in experiment.jobs_run.values()))
    intermediate_files = {
        row["name"] for name in list(outputs)[:2] for row in experiment.rucio.client().list_files("mc", name)
    }
    assert intermediate_files < inputs_read, "what one task wrote, the next one read"
    assert experiment.run_command("outputs", "list", "--json").out == "", "nothing waits for Rucio"

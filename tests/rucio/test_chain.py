"""A chain of three tasks with 200 jobs: input from Rucio, outputs into it, and what people do when jobs fail."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.api.process import serving
from broker.api.server import Listening
from broker.store.connection.database import Database
from tests.cli.commands import runner
from tests.pilots.panda.pilot_grid import AGENT
from tests.rucio.conftest import RucioServer
from tests.rucio.small_experiment import Experiment, Said, task


@pytest.fixture
def experiment(
    rucio: RucioServer, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Experiment]:
    command = runner(capsys, "--db", database.url)
    now = datetime.now(UTC).replace(microsecond=0)
    with (
        serving(database, Listening(port=0), home=tmp_path / "home", folder=None) as running,
        httpx.Client(
            base_url=running.server.url, headers={**AGENT, "authorization": f"Bearer {running.token}"}, timeout=30
        ) as pilots,
    ):
        made = Experiment(database, rucio, pilots, command, tmp_path, now)
        made.prepare()
        yield made


BROKEN = {"pilotErrorCode": "1305", "pilotErrorDiag": "payload stopped at event 7", "transExitCode": "65"}
TOO_LARGE = {"pilotErrorCode": "1212", "pilotErrorDiag": "payload ran out of memory"}
FIRST_MB = 8_000


def payload(job: dict[str, Any]) -> Said | None:
    """Of the last task one job is unlucky at its first attempt, and one needs more than 1 GB for each of its cores."""
    if not job["outFiles"].startswith("tracks.") or int(job["minRamCount"]) > FIRST_MB:
        return None
    last = {"._000009.root": TOO_LARGE, "._000011.root": BROKEN}
    return next((said for end, said in last.items() if job["inFiles"].endswith(end)), None)


def test_a_chain_of_three_tasks_with_200_jobs(experiment: Experiment) -> None:
    experiment.add_input("raw", 100)
    hits = experiment.submit("hits", task("hits", "raw"))["jeditaskid"]
    digits = experiment.submit("digits", task("digits", f"mc.{hits}.hits", nFilesPerJob=2, parentTaskID=hits))
    middle = digits["jeditaskid"]
    last = task("tracks", f"mc.{middle}.digits", parentTaskID=middle, maxAttempt=1)
    tracks = experiment.submit("tracks", last)["jeditaskid"]
    waste = experiment.submit("waste", task("waste", None), "--count", "5")["jeditaskid"]
    experiment.told("task", "kill", str(waste), "--reason", "a typing error")
    ended = {hits: "done", middle: "done", tracks: "finished", waste: "aborted"}
    experiment.run(lambda: experiment.statuses() == ended, payload)
    experiment.round(payload)
    assert len(experiment.made) == 200, "the killed task had none"
    assert experiment.dataset(f"mc.{tracks}.tracks") == (False, 48), "two files have no attempt left"

    (failed,) = [one for one in experiment.made if payload(experiment.made[one]) is BROKEN]
    understood = experiment.told("job", str(failed)).out
    assert "1305" in understood and "payload stopped at event 7" in understood

    experiment.told("task", "retry", str(tracks), "--set", "ramCount=2000", "--reason", "it needs more memory")
    experiment.run(lambda: experiment.statuses()[tracks] == "done", payload)
    experiment.round(payload)
    written = {f"mc.{hits}.hits": 100, f"mc.{middle}.digits": 50, f"mc.{tracks}.tracks": 50}
    logs = {f"mc.{hits}.hits.log": 100, f"mc.{middle}.digits.log": 50, f"mc.{tracks}.tracks.log": 52}
    for name, files in {**written, **logs}.items():
        assert experiment.dataset(name) == (False, files), name
    reading = set().union(*(job["inFiles"].split(",") for job in experiment.made.values()))
    inside = {row["name"] for name in list(written)[:2] for row in experiment.rucio.client().list_files("mc", name)}
    assert inside < reading, "what one task wrote, the next one read"
    assert experiment.told("outputs", "list", "--json").out == "", "nothing waits for Rucio"

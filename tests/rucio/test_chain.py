"""A chain of three tasks with 200 jobs: input from Rucio, outputs into it, and what people do when jobs fail."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from broker.api.listening import Listening
from broker.api.process import serving
from broker.store.connection.database import Database
from tests.cli.commands import runner
from tests.pilots.panda.pilot_grid import AGENT
from tests.rucio.conftest import RucioServer
from tests.rucio.small_experiment import Experiment, task


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


def test_a_chain_of_three_tasks_with_200_jobs(experiment: Experiment) -> None:
    experiment.add_input("raw", 100)
    first = experiment.submit("hits", task("hits", "raw"))
    second = experiment.submit(
        "digits", task("digits", f"mc.{first['jeditaskid']}.hits", nFilesPerJob=2, parentTaskID=first["jeditaskid"])
    )
    third = experiment.submit(
        "tracks", task("tracks", f"mc.{second['jeditaskid']}.digits", parentTaskID=second["jeditaskid"])
    )
    numbers = [one["jeditaskid"] for one in (first, second, third)]
    experiment.run(lambda: set(experiment.statuses().values()) == {"done"})
    experiment.round()
    assert len(experiment.made) == 200
    for number, name, files in zip(numbers, ("hits", "digits", "tracks"), (100, 50, 50), strict=True):
        assert experiment.dataset(f"mc.{number}.{name}") == (False, files)
        assert experiment.dataset(f"mc.{number}.{name}.log") == (False, files)

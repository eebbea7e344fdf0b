"""An installed brokerage of another distribution runs, and is explained, replayed and tried like the shipped ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.brokerages.small_grid import FRESH, NOW, scenario
from tests.conftest import TestServer

pytestmark = pytest.mark.walk
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "examples" / "brokerage-package"
SOURCE = PACKAGE / "src" / "example_slot_reservation"
PAGE = (ROOT / "docs" / "how-to" / "add-a-brokerage.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`([^`\n]+\.yaml)`:\n\n```yaml\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL))
COMMANDS = re.findall(r"^\$ broker (.*)$", PAGE, flags=re.MULTILINE)

FIRST, LARGE, LONG = 101, 102, 103


def slots(queue: str, count: int) -> dict[str, Any]:
    return {"pandaqueuename": queue, "gshare": "", "resourcetype": "", "numslots": count, "modificationtime": FRESH}


@pytest.fixture(scope="module")
def stored(test_server: TestServer) -> Iterator[Database]:
    """A grid with three queues that publish slots, one of them offline, and three requests."""
    slot_rows = [slots("ALPHA_MCORE", 64), slots("BETA", 100), slots("GAMMA_OFF", 500)]
    with test_server.opened(test_server.create()) as database:
        load(database, scenario(harvester_slots=slot_rows))
        with database.begin() as connection:
            connection.exec_driver_sql((SOURCE / "requests.sql").read_text(encoding="utf-8"))
            rows = [(FIRST, 60, 3600), (LARGE, 60, 3600), (LONG, 10, 900_000)]
            for number, count, walltime_s in rows:
                connection.execute(
                    sa.text("INSERT INTO public.hpc_slot_requests VALUES (:id, 'atlas', :slots, :walltime_s)"),
                    {"id": number, "slots": count, "walltime_s": walltime_s},
                )
        yield database


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables for a process that uses the installed package and the two files of the page."""
    target, config = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("configuration")
    # Building writes beside the sources, which all processes of this run share: each one builds a copy.
    package = tmp_path_factory.mktemp("sources") / PACKAGE.name
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(target), str(package)], check=True)
    for name, text in FILES.items():
        (config / name).parent.mkdir(exist_ok=True)
        (config / name).write_text(text, encoding="utf-8")
    path = os.pathsep.join([str(target), str(ROOT)])
    variables = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "BROKER_CONFIG": str(config)}
    return {**os.environ, **variables}


class Installed:
    """The command ``broker`` with the package installed."""

    def __init__(self, env: dict[str, str], database: Database) -> None:
        self._env = {**env, "BROKER_DATABASE_URL": database.url}

    def __call__(self, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        """Run the command and return its JSON lines."""
        command = [sys.executable, "-m", "broker.cli.main", *arguments, "--json"]
        result = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)
        assert result.returncode == status, result.stdout + result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def broker(installed: dict[str, str], stored: Database) -> Installed:
    """The command after one cycle of the agent."""
    command = Installed(installed, stored)
    command("run", "slot_reservation", "--at", NOW.isoformat(), "--seed", "1")
    return command


def test_the_page_names_its_files_and_commands() -> None:
    assert set(FILES) == {"broker.yaml", "profiles/reservations.yaml"}
    assert {path.name for path in SOURCE.iterdir() if path.suffix in (".py", ".sql")} >= {"brokerage.py", "tables.py"}
    for path in SOURCE.iterdir():
        if path.suffix in (".py", ".sql") and path.name != "__init__.py":
            assert f"`{path.name}`" in PAGE, path.name
    assert [command.split()[0] for command in COMMANDS] == [
        "rules", "run", "explain", "why-not", "replay", "what-if", "agents",
    ]  # fmt: skip


def test_its_agent_writes_its_decisions(broker: Installed, stored: Database) -> None:
    with stored.begin() as connection:
        rows = connection.exec_driver_sql("SELECT requestid, queue FROM public.hpc_slot_requests ORDER BY 1").all()
    # the first fits ALPHA_MCORE best and leaves too few slots for the second; the third runs for too long
    assert [tuple(row) for row in rows] == [(FIRST, "ALPHA_MCORE"), (LARGE, "BETA"), (LONG, None)]


def test_its_decisions_are_explained(broker: Installed) -> None:
    (first,) = broker("explain", str(FIRST))[0]["decisions"]
    assert (first["brokerage"], first["outcome"]) == ("slot_reservation", "brokered")
    assert [(candidate["name"], candidate["factors"]) for candidate in first["candidates"]] == [
        ("ALPHA_MCORE", {"best_fit": 60 / 64}),
        ("BETA", {"best_fit": 60 / 100}),
    ]
    assert first["rejected"] == {"GAMMA_OFF": "not_online"} and first["assigned"] == {"ALPHA_MCORE": 60}
    (last,) = broker("explain", str(LONG))[0]["decisions"]
    assert (last["outcome"], last["reason"]) == ("pending", "no_candidates")
    assert last["pending_until"] == "2026-08-01T12:10:00Z"


def test_it_answers_why_not(broker: Installed) -> None:
    (full,) = broker("why-not", str(LARGE), "ALPHA_MCORE")
    assert (full["candidate"]["code"], full["candidate"]["rule"]) == ("too_few_slots", "enough_slots")
    comparison = full["candidate"]["compared"]
    assert (comparison["value"], comparison["limit"], comparison["unit"]) == (60.0, 4.0, "slots")
    (too_long,) = broker("why-not", str(LONG), "BETA")
    comparison = too_long["candidate"]["compared"]
    assert (too_long["candidate"]["code"], comparison["limit"], comparison["key"]) == (
        "too_long",
        345600.0,
        "queue.maxtime",
    )
    (answer,) = broker("why-not", str(LARGE), "BETA")
    assert answer["candidate"]["code"] == "chosen"


def test_its_cycles_are_replayed(broker: Installed) -> None:
    results = broker("replay", "--last", "1h", "--at", NOW.isoformat())
    assert len(results) == 3 and all(result["identical"] for result in results)


def test_another_rule_list_is_tried_on_its_cycles(broker: Installed) -> None:
    options = ("--last", "1h", "--at", NOW.isoformat(), "--processes", "1")
    lines = broker("what-if", "--rule", "long_enough=off", *options)
    (total,) = [line for line in lines if line["kind"] == "total"]
    assert (total["brokerage"], total["decisions"], total["tasks_gaining_first_queue"]) == ("slot_reservation", 3, 1)
    (task,) = [line for line in lines if line["kind"] == "task"]
    assert task["jeditaskid"] == LONG and task["gained"] == {"BETA": "too_long"}


def test_it_is_an_agent_with_its_own_schedule(broker: Installed) -> None:
    (status,) = [line for line in broker("agents") if line["agent"] == "slot_reservation"]
    assert (status["enabled"], status["period_s"], status["last_outcome"]) == (True, 30.0, "done")
    assert status["counts"]["reserved"] == 2


def test_the_broker_does_not_know_its_name() -> None:
    for folder in ("broker", "agents", "config"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".yaml"):
                assert "slot_reservation" not in path.read_text(encoding="utf-8"), path

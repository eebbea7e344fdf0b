"""Runs the walk-through for a new rule as written: its files are created in an empty folder, its commands run there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.brokerages.small_grid import NOW, TASK, dataset, input_files, replica, scenario, task
from tests.conftest import TestServer

pytestmark = pytest.mark.walk
ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "examples" / "rule-package"
PAGE = (ROOT / "docs" / "how-to" / "add-a-rule.md").read_text(encoding="utf-8").split("\n## A rule in this tree")[0]
SHOWN = dict(re.findall(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL))
CONSOLE = re.findall(r"^```console\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
CONFIGURATION = {"config/broker.yaml", "config/profiles/example.yaml"}

#: Replacements for the commands of the page: no network, and no installation into the environment of the tests.
SHIMS = {
    "pip": '"{python}" -m pip --quiet --disable-pip-version-check "$@" --no-index --no-deps --no-build-isolation '
    "--target {target}",
    "python": '"{python}" "$@"',
    "broker": '"{python}" -m broker.cli.main "$@"',
}


class Walk:
    """An empty folder in which the page is followed."""

    def __init__(self, folder: Path) -> None:
        self.folder, programs, target = folder / "walk", folder / "bin", folder / "installed"
        for path in (self.folder, programs, target):
            path.mkdir()
        for name, line in SHIMS.items():
            text = line.format(python=sys.executable, target=target)
            (programs / name).write_text(f"#!/bin/sh\nexec {text}\n", encoding="utf-8")
            (programs / name).chmod(0o755)
        variables = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(target), str(ROOT)]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.env = {**{name: value for name, value in os.environ.items() if name != "BROKER_CONFIG"}, **variables}

    def __call__(self, commands: str, status: int = 0, **env: str) -> str:
        """Run commands, check the exit status, and return their output."""
        result = subprocess.run(
            ["sh", "-ec", commands],
            cwd=self.folder,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == status, result.stdout + result.stderr
        return result.stdout + result.stderr


def commands(console: str) -> str:
    return "\n".join(line.removeprefix("$ ") for line in console.splitlines())


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """The page followed up to the installation of the package."""
    new_walk = Walk(tmp_path_factory.mktemp("page"))
    for name, text in SHOWN.items():
        (new_walk.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (new_walk.folder / name).write_text(text, encoding="utf-8")
    new_walk.env["WALKED"] = new_walk(commands(CONSOLE[0]))
    return new_walk


def objects(printed: str) -> list[dict[str, Any]]:
    """The JSON lines of an output."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def rules(walk: Walk, config: str = "$PWD/config") -> list[dict[str, Any]]:
    printed = walk(f"export BROKER_CONFIG={config}\nbroker rules production_job --json")
    return objects(printed)


def test_the_page_shows_every_file_of_the_package() -> None:
    files = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*") if path.suffix in (".py", ".toml")}
    assert set(SHOWN) - CONFIGURATION == files
    for name in files:
        assert SHOWN[name] == (PACKAGE / name).read_text(encoding="utf-8"), name


def test_the_package_is_installed_and_its_tests_pass(walk: Walk) -> None:
    assert "7 passed" in walk.env["WALKED"]


def test_the_rules_are_in_their_places(walk: Walk) -> None:
    printed = walk(commands(CONSOLE[1]))
    assert printed.count("max_queued_here") == 1
    names = [rule["rule"] for rule in rules(walk)]
    assert names[names.index("pilots") + 1] == "max_queued_here"
    weights = [rule["rule"] for rule in rules(walk) if rule["kind"] == "weight"]
    assert "fast_cores" in weights and "no_downtime" in names


def test_the_other_brokerages_keep_the_rules_of_the_seed(walk: Walk) -> None:
    shipped = walk("broker rules analysis_job --json")
    assert walk("export BROKER_CONFIG=$PWD/config\nbroker rules analysis_job --json") == shipped


def test_an_installed_rule_does_nothing_until_it_is_named(walk: Walk) -> None:
    printed = walk("broker rules production_job --json")
    assert "max_queued_here" not in printed and "fast_cores" not in printed


def test_a_rule_that_is_not_installed_stops_the_start(walk: Walk) -> None:
    output = walk("BROKER_CONFIG=$PWD/config broker rules production_job", status=2, PYTHONPATH=str(ROOT))
    assert "max_queued_here" in output and "install" in output


@pytest.fixture(scope="module")
def grid(test_server: TestServer) -> Iterator[Database]:
    """A grid with one task, and a downtime at ALPHA in two hours."""
    with test_server.opened(test_server.create()) as database:
        tables = {"jedi_tasks": [task()], "jedi_datasets": [dataset(20)]}
        files = input_files(20, 2 * 1024**3)
        load(database, scenario(jedi_dataset_contents=files, dataset_replicas=[replica("ALPHA", 20, 20)], **tables))
        with database.begin() as connection:
            connection.execute(
                sa.text(
                    "CREATE TABLE public.site_downtimes AS SELECT 'ALPHA_MCORE' AS panda_queue, "
                    "timestamp '2026-08-01 14:00' AS starts_at, timestamp '2026-08-01 20:00' AS ends_at, "
                    "timestamp '2026-08-01 11:00' AS written_at"
                )
            )
        yield database


def test_an_unreadable_source_is_unknown_and_stops_no_cycle(walk: Walk, grid: Database) -> None:
    env = {"BROKER_DATABASE_URL": grid.url, "BROKER_CONFIG": str(walk.folder / "config")}
    with grid.begin() as connection:
        connection.execute(sa.text("ALTER TABLE public.site_downtimes RENAME TO elsewhere"))
    try:
        printed = walk(f"broker run production_job --at {NOW.isoformat()} --seed 1 --json --independent", **env)
        (decision,) = objects(printed)
        assert "ALPHA_MCORE" in [candidate["name"] for candidate in decision["candidates"]]
        assert "source site_downtimes is failed" in printed
    finally:
        with grid.begin() as connection:
            connection.execute(sa.text("ALTER TABLE public.elsewhere RENAME TO site_downtimes"))


def test_the_source_is_read_stored_and_rebuilt(walk: Walk, grid: Database) -> None:
    env = {"BROKER_DATABASE_URL": grid.url, "BROKER_CONFIG": str(walk.folder / "config")}
    now = NOW.isoformat()
    (decision,) = objects(walk(f"broker run production_job --at {now} --seed 1 --json", **env))
    assert decision["rejected"]["ALPHA_MCORE"] == "downtime"
    (answer,) = objects(walk(f"broker why-not {TASK} ALPHA_MCORE --json", **env))
    assert answer["candidate"]["rule"] == "no_downtime"
    comparison = answer["candidate"]["compared"]
    assert (comparison["value"], comparison["operator"], comparison["limit"]) == (2.0, ">", 12.0)
    (replayed,) = objects(walk(f"broker replay --last 1h --at {now} --json", **env))
    assert replayed["identical"]
    options = f"--last 1h --at {now} --processes 1 --json"
    lines = objects(walk(f"broker what-if --rule no_downtime=off {options}", **env))
    assert [line["gained"] for line in lines if line["kind"] == "task"] == [{"ALPHA_MCORE": "downtime"}]

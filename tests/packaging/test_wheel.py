"""The wheel: its content, and an unpacked wheel that works in an empty directory outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

import broker
from broker.store.connection.database import Database

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(built)


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def source_files(folder: str) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }


def test_server_wheel_and_plug_in_have_one_version(wheel: Path) -> None:
    plugin = tomllib.loads((ROOT / "plugins" / "jedi" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert broker.__version__ == plugin["version"] == wheel.name.split("-")[1]
    assert "version" in PROJECT["dynamic"] and "version" not in PROJECT


def test_the_wheel_has_all_files_needed_at_run_time(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("config", "schema"):
        assert {f"broker/_data/{name}" for name in source_files(folder)} <= names
    for folder in ("broker", "agents"):
        assert {name for name in source_files(folder) if "/_data/" not in name} <= names
    assert {"broker/py.typed", "agents/py.typed"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_has_no_other_packages(wheel: Path) -> None:
    roots = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"broker", "agents", "gridbroker_client"}


def run_unpacked(unpacked: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in ``folder`` with the unpacked wheel before all installed packages."""
    return subprocess.run(
        [sys.executable, "-W", "error", *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(unpacked), "BROKER_HOME": str(folder / "home")},
        timeout=120,
    )


def test_data_is_found_without_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    code = (
        "from broker import resources; from broker.store.connection.tables import declared_tables;"
        "print(resources.path('config/agents.yaml')); print(len(declared_tables('panda')))"
    )
    result = run_unpacked(unpacked, tmp_path, "-c", code)
    assert result.stderr == ""
    path, tables = result.stdout.splitlines()
    assert Path(path) == unpacked / "broker/_data/config/agents.yaml"
    assert int(tables) > 30


@pytest.mark.slow
def test_the_command_works_without_the_checkout(unpacked: Path, tmp_path: Path, empty_database: Database) -> None:
    url = empty_database.url
    result = run_unpacked(unpacked, tmp_path, "-m", "broker.cli.main", "db", "init", "--json", "--db", url)
    assert (result.returncode, result.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_the_command_is_installed_under_its_name() -> None:
    assert PROJECT["scripts"]["broker"] == "broker.cli.entry:main"
    assert PROJECT["name"] == "gridbroker"

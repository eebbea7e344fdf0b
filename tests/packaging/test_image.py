"""The image: what the Dockerfile copies makes the whole wheel, installed with the extras that its services need."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = {"api", "fast", "web", "rucio", "telemetry"}


def copied_for_the_build() -> list[tuple[str, str]]:
    """Source and destination of what the first stage copies."""
    stage = DOCKERFILE.split("\nFROM ")[0]
    copies = [shlex.split(words) for words in re.findall(r"^COPY (.*)$", stage, re.MULTILINE)]
    return [(source, words[-1]) for words in copies for source in words[:-1]]


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """The folder in which the image builds the wheel."""
    for source, destination in copied_for_the_build():
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tmp_path / destination, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, tmp_path / destination)
    return tmp_path


def files_of_wheel(folder: Path, made_in: Path) -> set[str]:
    (built,) = WheelBuilder(str(folder)).build(directory=str(made_in), versions=["standard"])
    return set(zipfile.ZipFile(built).namelist())


def test_the_wheel_of_the_image_holds_all_that_the_whole_one_holds(
    context: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    of_image = files_of_wheel(context, tmp_path_factory.mktemp("image"))
    assert of_image == files_of_wheel(ROOT, tmp_path_factory.mktemp("whole"))
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {name.split("/")[0] for name in of_image if ".dist-info/" not in name} == set(packages)


def test_the_image_has_the_extras_that_its_services_need() -> None:
    (listed,) = re.findall(r'pip install .*\.whl\)\[([a-z,]+)\]"', DOCKERFILE)
    assert set(listed.split(",")) == EXTRAS <= PROJECT["project"]["optional-dependencies"].keys()


def test_what_the_extras_ask_for_is_pinned() -> None:
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()}
    wanted = {
        re.split(r"[\[<>=!~; ]", one)[0]
        for extra in EXTRAS
        for one in PROJECT["project"]["optional-dependencies"][extra]
    }
    assert wanted - {"gridbroker"} <= pinned


@pytest.fixture
def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    return found["services"]


def test_the_api_is_published_to_this_machine_only(services: dict[str, dict[str, Any]]) -> None:
    assert services["api"]["command"][0] == "api"
    published = {name: service.get("ports", []) for name, service in services.items()}
    assert published == {"database": [], "broker": [], "api": ["127.0.0.1:8642:8642"]}


def test_the_token_of_the_api_outlives_its_container(services: dict[str, dict[str, Any]]) -> None:
    (home,) = re.findall(r"BROKER_HOME=(\S+)", DOCKERFILE)
    assert services["api"]["volumes"] == [f"api:{home}"]


def test_the_password_of_the_database_has_no_default(services: dict[str, dict[str, Any]]) -> None:
    settings = json.dumps(services)
    uses = re.findall(r"\$\{POSTGRES_PASSWORD([^}]*)\}", settings)
    assert len(uses) == 3 and all(use.startswith(":?") for use in uses)

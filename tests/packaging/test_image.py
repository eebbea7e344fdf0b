"""The image: what the Dockerfile copies makes the whole wheel, installed with the extras that its services need."""

from __future__ import annotations

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

from broker.api.configuration import load
from broker.service.commands.serve import DEFAULT_PORT

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = {"api", "fast", "web", "rucio", "telemetry"}


def copied_for_the_build() -> list[tuple[str, str]]:
    """Source and destination of what the first stage copies."""
    stage = DOCKERFILE.split("\nFROM ")[1]
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
    (listed,) = re.findall(r"^ARG EXTRAS=([a-z,]+)$", DOCKERFILE, re.MULTILINE)
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


def test_what_is_published_is_published_to_this_machine_only(services: dict[str, dict[str, Any]]) -> None:
    assert services["api"]["command"][0] == "api"
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"api": ["127.0.0.1:8642:8642"], "grafana": ["127.0.0.1:3000:3000"]}


def test_only_the_brokers_and_the_api_reach_the_database(services: dict[str, dict[str, Any]]) -> None:
    inside = {name for name, service in services.items() if "inside" in service["networks"]}
    assert inside == {"database", "broker", "api"}


def test_the_token_of_the_api_outlives_its_container(services: dict[str, dict[str, Any]]) -> None:
    (home,) = re.findall(r"BROKER_HOME=(\S+)", DOCKERFILE)
    assert f"api:{home}" in services["api"]["volumes"]


def test_passwords_are_files_and_have_no_default(services: dict[str, dict[str, Any]]) -> None:
    settings = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    asked = {name for service in services.values() for name in service.get("secrets", [])}
    assert {name: secret["file"] for name, secret in settings["secrets"].items()} == {
        name: f"secrets/{name}" for name in asked
    }
    variables = {name: value for one in services.values() for name, value in one.get("environment", {}).items()}
    passwords = {name: value for name, value in variables.items() if "PASSWORD" in name}
    assert passwords.keys() == {
        "POSTGRES_PASSWORD_FILE",
        "BROKER_DATABASE_PASSWORD_FILE",
        "GF_SECURITY_ADMIN_PASSWORD__FILE",
    }
    assert all(value.removeprefix("/run/secrets/") in asked for value in passwords.values())
    assert "secrets" in (ROOT / ".dockerignore").read_text(encoding="utf-8").split()


def test_the_services_may_write_to_their_volume_only(services: dict[str, dict[str, Any]]) -> None:
    for name in ("broker", "api"):
        service = services[name]
        assert (service["read_only"], service["tmpfs"], service["cap_drop"]) == (True, ["/tmp"], ["ALL"]), name


def test_prometheus_asks_the_api_by_a_name_that_it_answers_to(services: dict[str, dict[str, Any]]) -> None:
    folder = ROOT / "deploy" / "compose"
    scraped = yaml.safe_load((folder / "prometheus.yml").read_text(encoding="utf-8"))
    (config,) = scraped["scrape_configs"]
    ((target,),) = [one["targets"] for one in config["static_configs"]]
    name, port = target.split(":")
    assert name in load(folder / "api.yaml").hosts and name in services and int(port) == DEFAULT_PORT
    assert config["job_name"] == "gridbroker"


def test_each_file_that_is_mounted_is_there(services: dict[str, dict[str, Any]]) -> None:
    mounted = [one for service in services.values() for one in service.get("volumes", []) if one.startswith("./")]
    assert len(mounted) == 6
    for one in mounted:
        source, _, mode = one.split(":")
        assert mode == "ro" and (ROOT / source).is_file(), one

"""The image: the Dockerfile copies all files of the wheel and installs the extras that its services need."""

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


def build_copies() -> list[tuple[str, str]]:
    """Source and destination of each copy of the first stage."""
    stage = DOCKERFILE.split("\nFROM ")[1]
    copies = [shlex.split(words) for words in re.findall(r"^COPY (.*)$", stage, re.MULTILINE)]
    return [(source, words[-1]) for words in copies for source in words[:-1]]


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """A copy of the folder in which the image builds its wheel."""
    for source, destination in build_copies():
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tmp_path / destination, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, tmp_path / destination)
    return tmp_path


def files_of_wheel(folder: Path, destination: Path) -> set[str]:
    (built,) = WheelBuilder(str(folder)).build(directory=str(destination), versions=["standard"])
    return set(zipfile.ZipFile(built).namelist())


def test_the_wheel_of_the_image_has_all_files_of_the_wheel(
    context: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files_of_image = files_of_wheel(context, tmp_path_factory.mktemp("image"))
    assert files_of_image == files_of_wheel(ROOT, tmp_path_factory.mktemp("whole"))
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {name.split("/")[0] for name in files_of_image if ".dist-info/" not in name} == set(packages)


def test_the_image_has_the_extras_that_its_services_need() -> None:
    (extras,) = re.findall(r"^ARG EXTRAS=([a-z,]+)$", DOCKERFILE, re.MULTILINE)
    assert set(extras.split(",")) == EXTRAS <= PROJECT["project"]["optional-dependencies"].keys()


def test_the_requirements_of_the_extras_are_pinned() -> None:
    pinned_packages = {
        line.split("==")[0] for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    }
    required_packages = {
        re.split(r"[\[<>=!~; ]", requirement)[0]
        for extra in EXTRAS
        for requirement in PROJECT["project"]["optional-dependencies"][extra]
    }
    assert required_packages - {"gridbroker"} <= pinned_packages


@pytest.fixture
def services() -> dict[str, dict[str, Any]]:
    document: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    return document["services"]


def test_ports_are_published_to_this_machine_only(services: dict[str, dict[str, Any]]) -> None:
    assert services["api"]["command"][0] == "api"
    published_ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published_ports == {"api": ["127.0.0.1:8642:8642"], "grafana": ["127.0.0.1:3000:3000"]}


def test_only_the_brokers_and_the_api_reach_the_database(services: dict[str, dict[str, Any]]) -> None:
    inside = {name for name, service in services.items() if "inside" in service["networks"]}
    assert inside == {"database", "broker", "api"}


def test_the_token_of_the_api_outlives_its_container(services: dict[str, dict[str, Any]]) -> None:
    (home,) = re.findall(r"BROKER_HOME=(\S+)", DOCKERFILE)
    assert f"api:{home}" in services["api"]["volumes"]


def test_passwords_are_files_and_have_no_default(services: dict[str, dict[str, Any]]) -> None:
    settings = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    secret_names = {name for service in services.values() for name in service.get("secrets", [])}
    assert {name: secret["file"] for name, secret in settings["secrets"].items()} == {
        name: f"secrets/{name}" for name in secret_names
    }
    variables = {name: value for service in services.values() for name, value in service.get("environment", {}).items()}
    passwords = {name: value for name, value in variables.items() if "PASSWORD" in name}
    assert passwords.keys() == {
        "POSTGRES_PASSWORD_FILE",
        "BROKER_DATABASE_PASSWORD_FILE",
        "GF_SECURITY_ADMIN_PASSWORD__FILE",
    }
    assert all(value.removeprefix("/run/secrets/") in secret_names for value in passwords.values())
    assert "secrets" in (ROOT / ".dockerignore").read_text(encoding="utf-8").split()


def test_the_services_may_write_to_their_volume_only(services: dict[str, dict[str, Any]]) -> None:
    for name in ("broker", "api"):
        service = services[name]
        assert (service["read_only"], service["tmpfs"], service["cap_drop"]) == (True, ["/tmp"], ["ALL"]), name


def test_prometheus_scrapes_the_api_under_an_accepted_host_name(services: dict[str, dict[str, Any]]) -> None:
    folder = ROOT / "deploy" / "compose"
    configuration = yaml.safe_load((folder / "prometheus.yml").read_text(encoding="utf-8"))
    (config,) = configuration["scrape_configs"]
    ((target,),) = [static["targets"] for static in config["static_configs"]]
    name, port = target.split(":")
    assert name in load(folder / "api.yaml").hosts and name in services and int(port) == DEFAULT_PORT
    assert config["job_name"] == "gridbroker"


def test_each_mounted_file_exists(services: dict[str, dict[str, Any]]) -> None:
    mounts = [
        volume for service in services.values() for volume in service.get("volumes", []) if volume.startswith("./")
    ]
    assert len(mounts) == 6
    for mount in mounts:
        source, _, mode = mount.split(":")
        assert mode == "ro" and (ROOT / source).is_file(), mount

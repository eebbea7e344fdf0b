"""The systemd unit and the container start existing commands with existing options."""

from __future__ import annotations

import configparser
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml
from typer.main import get_command

from agents.service.configuration import ServiceSection
from agents.service.leadership import STOP_WITHIN_S
from broker.cli.application import build_app
from broker.store.connection.database import Database
from broker.store.connection.embedded_binaries import program

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "docs" / "how-to" / "gridbroker.service"
LONGEST_STOP_S = 10.0


@pytest.fixture
def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT.read_text(encoding="utf-8"))
    return parser


def usable(words: list[str]) -> bool:
    """Whether the words are an existing broker command with existing options."""
    assert Path(words[0]).name == "broker"
    command = get_command(build_app())
    rest = words[1:]
    while rest and not rest[0].startswith("-") and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]  # type: ignore[attr-defined]
    command.make_context("broker", rest)
    return not hasattr(command, "commands")


@pytest.mark.parametrize("key", ["ExecStartPre", "ExecStart"])
def test_the_unit_starts_commands_that_exist(unit: configparser.ConfigParser, key: str) -> None:
    assert usable(shlex.split(unit["Service"][key]))


def test_it_is_restarted_after_a_failure_and_has_time_to_stop(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert service["Restart"] == "on-failure"
    assert "--end-when-unhealthy" in service["ExecStart"]
    assert float(service["TimeoutStopSec"]) > LONGEST_STOP_S
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_the_time_limits_of_a_stop_add_up_to_less_than_ten_seconds() -> None:
    # cycles, the lease thread, and the release of leases over a new connection (2 s)
    assert ServiceSection().stop_within_s + STOP_WITHIN_S + 2 < LONGEST_STOP_S


def test_an_unhealthy_container_ends_and_is_restarted() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]["broker"]
    shell, option, line = compose["entrypoint"]
    assert (shell, option) == ("sh", "-c")
    commands = [shlex.split(part.removeprefix("exec ")) for part in line.split(" && ")]
    assert all(usable(words) for words in commands)
    assert "--end-when-unhealthy" in commands[-1]
    assert compose["restart"] == "unless-stopped"
    assert float(compose["stop_grace_period"].removesuffix("s")) > LONGEST_STOP_S
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (command,) = re.findall(r"^CMD (\[.*\])$", docker, re.MULTILINE)
    assert usable(["broker", *json.loads(command)])
    assert "--end-when-unhealthy" in json.loads(command)


PAGE = ROOT / "docs" / "how-to" / "run-under-systemd.md"
PASSWORD = "a1b2c3"
NAME = f"walked_{os.getpid()}"
"""Of the role and the database: the server of the run has one `broker` already."""


def blocks() -> list[str]:
    """The shell commands of the page, in order."""
    texts = re.findall(r"^   ```sh\n(.*?)^   ```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    replacements = {"PASSWORD'": f"{PASSWORD}'", ":PASSWORD@": f":{PASSWORD}@"}
    replacements |= {"ROLE broker": f"ROLE {NAME}", "DATABASE broker OWNER broker": f"DATABASE {NAME} OWNER {NAME}"}
    return [
        functools.reduce(lambda text, pair: text.replace(*pair), replacements.items(), textwrap.dedent(text_of_block))
        for text_of_block in texts
    ]


@pytest.fixture
def role(server_url: str) -> Iterator[sa.URL]:
    """The server of the run, on which the page creates a role and a database."""
    admin = Database(server_url, pool_size=1)
    try:
        yield sa.make_url(server_url)
    finally:
        with admin.autocommit() as connection:
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {NAME} WITH (FORCE)")
            connection.exec_driver_sql(f"DROP ROLE IF EXISTS {NAME}")
        admin.close()


def test_the_steps_from_the_role_to_the_schema_work_as_written(role: sa.URL, tmp_path: Path) -> None:
    """Paths are moved below a folder, `runuser` is left out, and the address becomes that of the test server."""
    create_role, write_environment, schema = blocks()[1:4]
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "broker"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m broker.cli.entry "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    own_url = role.set(database=NAME, username=NAME, password=PASSWORD).render_as_string(hide_password=False)
    url_on_page = f"postgresql://broker:{PASSWORD}@127.0.0.1:5432/broker"
    assert url_on_page in write_environment
    script = (
        create_role
        + write_environment.replace(url_on_page, own_url.replace("postgresql+psycopg:", "postgresql:"))
        + schema
    )
    script = script.replace("runuser -u postgres -- psql", f'{program("psql")} "$ADMIN"')
    script = script.replace("/etc/gridbroker", str(tmp_path / "etc")).replace("/opt/gridbroker", str(tmp_path))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BROKER_")}
    admin = role.set(drivername="postgresql").render_as_string(hide_password=False)
    result = subprocess.run(
        ["sh", "-eu", "-c", script],
        capture_output=True,
        text=True,
        timeout=250,
        cwd=tmp_path,
        env={**inherited, "ADMIN": admin, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    with Database(own_url) as database, database.begin() as connection:
        assert connection.scalar(sa.text("SELECT current_user")) == NAME
        assert connection.scalar(sa.text("SELECT count(*) FROM broker.decisions")) == 0
    assert [path.name for path in tmp_path.rglob("PG_VERSION")] == []
    assert (tmp_path / "etc" / "environment").stat().st_mode & 0o077 == 0


def test_the_unit_has_a_home_and_serves_the_api(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert service["Environment"] == f"BROKER_HOME=/var/lib/{service['StateDirectory']}"
    assert "--api" in shlex.split(service["ExecStart"])
    assert "web" in re.findall(r"\[([a-z,]+)\]", blocks()[0])[0].split(",")

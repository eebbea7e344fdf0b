"""The unit for systemd, and what the container starts: commands and options that exist."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from agents.service.configuration import ServiceSection
from agents.service.leadership import STOP_WITHIN_S
from broker.cli.application import build_app

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
    """Whether words are a command of the broker with options that it has."""
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


def test_what_a_stop_may_take_adds_up_to_less_than_ten_seconds() -> None:
    # cycles, the thread of the leases, and leases that are given up over a connection that has to be made (2 s)
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
    (started,) = re.findall(r"^CMD (\[.*\])$", docker, re.MULTILINE)
    assert usable(["broker", *json.loads(started)])
    assert "--end-when-unhealthy" in json.loads(started)

"""Commands run inside the test process: exit status, output, and the output as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from broker.cli import remote
from broker.cli.main import main
from broker.feature import commands


@dataclass(frozen=True)
class Outcome:
    status: object
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        (line,) = self.out.splitlines()
        parsed: dict[str, Any] = json.loads(line)
        return parsed


class Command(Protocol):
    def __call__(self, *arguments: str) -> Outcome: ...


def runner(capsys: pytest.CaptureFixture[str], *front: str) -> Command:
    def run(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as end:
            main([*front, *arguments])
        captured = capsys.readouterr()
        return Outcome(end.value.code, captured.out, captured.err)

    return run


def remote_commands() -> list[str]:
    """The commands that ``broker --server`` serves."""
    paths: list[str] = []
    for command in commands():
        served = remote.load(command) if command.elsewhere else {}
        inner = [f"{command.name} {name}" for name in served] if isinstance(served, Mapping) else [command.name]
        paths += inner
    return paths

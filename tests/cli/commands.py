"""Commands run inside the test: status, what they print, and JSON lines of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from broker.cli.main import main


@dataclass(frozen=True)
class Outcome:
    status: object
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        (line,) = self.out.splitlines()
        found: dict[str, Any] = json.loads(line)
        return found


class Command(Protocol):
    def __call__(self, *arguments: str) -> Outcome: ...


def runner(capsys: pytest.CaptureFixture[str], *front: str) -> Command:
    def run(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as end:
            main([*front, *arguments])
        captured = capsys.readouterr()
        return Outcome(end.value.code, captured.out, captured.err)

    return run

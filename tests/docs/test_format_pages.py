"""The examples on the pages of the exchange formats: every command prints what the page shows."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.cli.main import main
from broker.store.connection.database import Database

FOLDER = Path(__file__).parents[2] / "docs" / "explanation"
PAGES = ("machine-job-features.md", "job-to-machine.md", "sss-job-object.md", "submit-pools.md")
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A command with its output and exit status; the page shows the status in brackets if it is not 0."""

    words: tuple[str, ...]
    out: str
    status: int


def steps_of(text: str, folder: Path) -> list[Step]:
    """Write the files of a page and return its commands."""
    steps = []
    for kind, name, body in BLOCK.findall(text):
        if name:
            (folder / name).write_text(body, encoding="utf-8")
        elif kind == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                line, _, out = part.partition("\n")
                status = re.search(r"^\[(\d)\]\n\Z", out, re.MULTILINE)
                printed = out if status is None else out[: status.start()]
                words = tuple(shlex.split(line.replace("$PWD", str(folder))))
                steps.append(Step(words, printed, int(status[1]) if status else 0))
    return steps


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_print_what_the_page_shows(
    page: str, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = steps_of((FOLDER / page).read_text(encoding="utf-8"), tmp_path)
    assert len(steps) >= 3
    for step in steps:
        if step.words[0] == "mkdir":
            (tmp_path / step.words[1]).mkdir()
            continue
        assert step.words[0] == "broker"
        with pytest.raises(SystemExit) as end:
            main(["--db", database.url, *step.words[1:]])
        assert (end.value.code, capsys.readouterr().out) == (step.status, step.out), " ".join(step.words)

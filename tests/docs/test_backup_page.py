"""Runs the page on backups as written: a dump of one home, restored in an empty one, has the changed setting."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from broker.store.connection.embedded import EmbeddedServer
from broker.store.connection.embedded_binaries import program
from tests.docs.source_tree import ROOT

PAGE = ROOT / "docs" / "how-to" / "back-up-and-restore.md"
PRELUDE = """
set -eu
broker() { "$PYTHON" -m broker.cli.entry "$@"; }
python() { "$PYTHON" "$@"; }
"""
SET = "broker db init\nbroker config set NQUEUED_SAT_CAP 77 --reason kept\n"
ASK = 'cp "$FIRST/broker.dump" .\n', "broker config get NQUEUED_SAT_CAP --json\nbroker db stop\n"


@pytest.fixture
def homes() -> list[Path]:
    folders = [Path(tempfile.mkdtemp(prefix="backup-")) for _ in range(2)]
    for home in folders:
        home.chmod(0o755)
    return folders


def run(home: Path, script: str, **extra: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BROKER_", "XDG_"))}
    variables = {"HOME": str(home), "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), **extra}
    result = subprocess.run(
        ["bash", "-c", PRELUDE + script],
        cwd=home,
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        timeout=280,
    )
    for version_file in home.rglob("PG_VERSION"):
        if "base" not in version_file.parts:
            EmbeddedServer(version_file.parent.parent).shut_down()
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stdout


def blocks() -> list[str]:
    """The commands of the page: finding the programs, the dump, and the restore."""
    texts = re.findall(r"^```\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [str(text) for text in texts]


def test_the_page_names_the_programs_of_the_embedded_server(homes: list[Path]) -> None:
    lines = run(homes[0], blocks()[0] + "command -v pg_dump pg_restore\n").splitlines()
    assert lines[0].startswith("pg_dump (PostgreSQL) 18")
    assert {Path(line).parent for line in lines[1:]} == {program("pg_dump").parent}


@pytest.mark.slow
@pytest.mark.timeout(580)
def test_a_dump_is_restored_in_an_empty_home(homes: list[Path]) -> None:
    programs, dump, restore = blocks()[:3]
    first, second = homes
    run(first, programs + SET + dump)
    output = run(second, f"{programs}{ASK[0]}{restore}{ASK[1]}", FIRST=str(first))
    assert '"value": 77' in output

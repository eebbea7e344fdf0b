"""The page on backups runs literally: a dump of one home, restored in an empty one, has what was set."""

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
    found = [Path(tempfile.mkdtemp(prefix="backup-")) for _ in range(2)]
    for home in found:
        home.chmod(0o755)
    return found


def run(home: Path, script: str, **more: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BROKER_", "XDG_"))}
    own = {"HOME": str(home), "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), **more}
    done = subprocess.run(
        ["bash", "-c", PRELUDE + script],
        cwd=home,
        env={**kept, **own},
        capture_output=True,
        text=True,
        timeout=280,
    )
    for made in home.rglob("PG_VERSION"):
        if "base" not in made.parts:
            EmbeddedServer(made.parent.parent).shut_down()
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def blocks() -> list[str]:
    """Where the programs are, the dump, and the way back."""
    found = re.findall(r"^```\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [str(one) for one in found]


def test_the_page_names_the_programs_of_the_embedded_server(homes: list[Path]) -> None:
    shown = run(homes[0], blocks()[0] + "command -v pg_dump pg_restore\n").splitlines()
    assert shown[0].startswith("pg_dump (PostgreSQL) 18")
    assert {Path(one).parent for one in shown[1:]} == {program("pg_dump").parent}


@pytest.mark.slow
@pytest.mark.timeout(580)
def test_a_dump_comes_back_in_an_empty_home(homes: list[Path]) -> None:
    programs, dump, restore = blocks()[:3]
    first, second = homes
    run(first, programs + SET + dump)
    told = run(second, f"{programs}{ASK[0]}{restore}{ASK[1]}", FIRST=str(first))
    assert '"value": 77' in told

"""Runs the commands of a page, from top to bottom, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from broker.store.connection.embedded import EmbeddedServer
from tests.docs.source_tree import ROOT

TIME_LIMIT_S = 280


def walk(page: str, prelude: str) -> tuple[str, list[Path]]:
    """Run the blocks of a page below ``docs`` after ``prelude``; return their output and the homes they created."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    folder = Path(tempfile.mkdtemp(prefix="walk-"))
    folder.chmod(0o755)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BROKER_", "XDG_"))}
    result = subprocess.run(
        ["bash", "-c", prelude + "\n".join(f'echo "== {number}"\n{text}' for number, text in enumerate(blocks))],
        cwd=folder,
        env={**inherited, "HOME": str(folder), "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
    )
    data_folders = sorted(path.parent for path in folder.rglob("PG_VERSION") if "base" not in path.parts)
    for pgdata in data_folders:
        EmbeddedServer(pgdata.parent).shut_down()
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stdout, [path.parent for path in data_folders]

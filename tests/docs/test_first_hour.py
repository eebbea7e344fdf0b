"""The tutorial runs literally in an empty home; only ``make`` and ``broker serve`` are stood in for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from broker.store.connection.embedded import EmbeddedServer
from tests.docs.source_tree import ROOT

pytestmark = pytest.mark.walk
PAGE = ROOT / "docs" / "tutorial" / "first-hour.md"
PRELUDE = """
set -eu
make() { [ "$1" = demo ]; broker demo --quick; }
broker() {
    if [ "$1" = serve ]; then
        "$PYTHON" -m broker.cli.entry serve --once || echo "serve ended with $?"
    else
        "$PYTHON" -m broker.cli.entry "$@"
    fi
}
"""


def blocks() -> list[str]:
    return re.findall(r"^```\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_page_runs_from_top_to_bottom() -> None:
    home = Path(tempfile.mkdtemp(prefix="first-hour-"))
    home.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BROKER_", "XDG_"))}
    done = subprocess.run(
        ["bash", "-c", PRELUDE + "\n".join(f'echo "== {n}"\n{text}' for n, text in enumerate(blocks()))],
        cwd=home,
        env={**kept, "HOME": str(home), "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    made = sorted(path.parent for path in home.rglob("PG_VERSION") if "base" not in path.parts)
    for pgdata in made:
        EmbeddedServer(pgdata.parent).shut_down()
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert [path.parent.name for path in made] == ["demo", "my-grid"] or len(made) == 2
    assert "43000069" in done.stdout and "version 2" in done.stdout

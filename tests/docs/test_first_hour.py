"""The tutorial runs as written in an empty home; only ``make`` and ``broker serve`` are replaced."""

from __future__ import annotations

import pytest

from tests.docs.walking import walk

pytestmark = pytest.mark.walk
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


def test_the_page_runs_from_top_to_bottom() -> None:
    printed, homes = walk("tutorial/first-hour.md", PRELUDE)
    assert [home.name for home in homes] == ["demo", "my-grid"]
    assert "43000069" in printed and "version 2" in printed

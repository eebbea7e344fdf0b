"""The tutorial about feeds runs as written in an empty folder."""

from __future__ import annotations

import pytest

from tests.docs.walking import walk

pytestmark = pytest.mark.walk
PRELUDE = """
set -eu
broker() { "$PYTHON" -m broker.cli.entry "$@"; }
"""


def test_the_page_runs_from_top_to_bottom() -> None:
    printed, homes = walk("tutorial/a-grid-from-its-feeds.md", PRELUDE)
    assert [home.name for home in homes] == ["copy", "fed-grid"]
    assert "Brokered: 1 job at 1 queue." in printed and "disk exchange" in printed
    loaded = printed.rpartition("Loaded ")[2]
    assert "schedconfig_json\t200" in loaded and "jobsdefined4\t1" in loaded

"""Every place with the version has the same version, and the changelog has a section for it."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys

import pytest

from broker import __version__
from tests.docs.source_tree import ROOT

SCRIPT = ROOT / ".ci" / "version"
PLACES: tuple[tuple[str, str], ...] = runpy.run_path(str(SCRIPT))["PLACES"]


@pytest.mark.parametrize(("name", "pattern"), PLACES)
def test_each_place_has_the_version_of_the_package(name: str, pattern: str) -> None:
    assert re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE) == [__version__]


def test_the_api_description_has_the_version() -> None:
    document = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text(encoding="utf-8"))
    assert document["info"]["version"] == __version__


def test_the_changelog_has_a_section_for_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released_versions = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert released_versions[0] == __version__


@pytest.mark.parametrize("word", ["", "1.0", "v1.0.0", "one", "1.0.0.0"])
def test_an_invalid_version_is_refused(word: str) -> None:
    result = subprocess.run([sys.executable, SCRIPT, word], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (1, "usage: .ci/version MAJOR.MINOR.PATCH\n")


def test_a_missing_place_is_reported() -> None:
    with_version = runpy.run_path(str(SCRIPT))["written"]
    assert with_version("a = 1\nversion: 0.1\n", r"^version: (.+)$", "1.0.0") == "a = 1\nversion: 1.0.0\n"
    with pytest.raises(SystemExit, match="0 times"):
        with_version("a = 1\n", r"^version: (.+)$", "1.0.0")

"""``.ci/release``: reproducible builds, and the documents about them."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import broker
from tests.docs.source_tree import ROOT

SCRIPT = ROOT / ".ci" / "release"
VERSION = broker.__version__
ARCHIVES = {
    f"gridbroker-{VERSION}-py3-none-any.whl",
    f"gridbroker-{VERSION}.tar.gz",
    f"gridbroker_jedi-{VERSION}-py3-none-any.whl",
    f"gridbroker_jedi-{VERSION}.tar.gz",
}


@pytest.fixture(scope="module")
def release() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release without its bill of materials, which would need an installation from an index."""
    folder: Path = tmp_path_factory.mktemp("release") / "dist"
    command = [sys.executable, str(SCRIPT), "--folder", str(folder), "--no-sbom"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.slow
def test_a_release_has_wheels_and_sdists_of_both_packages_with_their_checksums(built: Path) -> None:
    lines = [line.split("  ") for line in (built / "SHA256SUMS").read_text(encoding="utf-8").splitlines()]
    assert {name for _, name in lines} == ARCHIVES | {"provenance.json"}
    assert all(hashlib.sha256((built / name).read_bytes()).hexdigest() == digest for digest, name in lines)


@pytest.mark.slow
def test_the_provenance_names_files_and_commit_but_no_local_paths(built: Path) -> None:
    text = (built / "provenance.json").read_text(encoding="utf-8")
    provenance = json.loads(text)
    assert {subject["name"] for subject in provenance["subject"]} == ARCHIVES
    assert len(provenance["source"]["commit"]) == 40
    assert "hatchling" in provenance["builder"]["tools"]
    assert str(ROOT) not in text and str(built) not in text


@pytest.mark.slow
def test_times_in_the_archives_equal_the_time_of_the_commit(built: Path) -> None:
    epoch = json.loads((built / "provenance.json").read_text(encoding="utf-8"))["source"]["source_date_epoch"]
    with tarfile.open(built / f"gridbroker-{VERSION}.tar.gz") as archive:
        assert {member.mtime for member in archive.getmembers()} == {epoch}
    with zipfile.ZipFile(built / f"gridbroker-{VERSION}-py3-none-any.whl") as archive_of_wheel:
        assert len({member.date_time for member in archive_of_wheel.infolist()}) == 1


README = (
    "![A picture](docs/a.png) [a page](docs/b.md#part), [outside](https://x.org/c), [here](#part), [up](../LICENSE)"
)


def test_links_of_a_readme_point_to_the_repository(release: dict[str, Any]) -> None:
    text = release["with_absolute_links"](README, "https://x.org/us/{}/v1", "plugins/jedi")
    assert text == (
        "![A picture](https://x.org/us/raw/v1/plugins/jedi/docs/a.png) "
        "[a page](https://x.org/us/blob/v1/plugins/jedi/docs/b.md#part), [outside](https://x.org/c), [here](#part), "
        "[up](https://x.org/us/blob/v1/plugins/LICENSE)"
    )


def test_a_build_for_a_repository_names_it_and_has_no_relative_links(release: dict[str, Any], tmp_path: Path) -> None:
    release["copy_tracked"](tmp_path, "https://x.org/us/gridbroker")
    for folder in (tmp_path, tmp_path / "plugins" / "jedi"):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert project["urls"]["Source"] == "https://x.org/us/gridbroker"
        links = re.findall(r"\]\(([^)\s]+)\)", (folder / "README.md").read_text(encoding="utf-8"))
        assert [link for link in links if not link.startswith(("https://", "http://", "#"))] == []
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (tmp_path / "README.md").read_text(encoding="utf-8"))
    assert pictures and all(url.startswith(f"https://x.org/us/gridbroker/raw/v{VERSION}/docs/") for url in pictures)


def sign(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "sign"), "--folder", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_file_with_a_wrong_checksum_is_not_signed(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"a")
    (tmp_path / "SHA256SUMS").write_text(f"{hashlib.sha256(b'b').hexdigest()}  a.whl\n", encoding="utf-8")
    result = sign(tmp_path)
    assert (result.returncode, "a.whl is not what SHA256SUMS says" in result.stderr) == (1, True)


def test_signing_without_the_tool_reports_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"a")
    (tmp_path / "SHA256SUMS").write_text(f"{hashlib.sha256(b'a').hexdigest()}  a.whl\n", encoding="utf-8")
    result = sign(tmp_path)
    assert (result.returncode, "not signed" in result.stderr, "fulcio" in result.stderr) == (1, True, True)


def test_files_with_different_bytes_are_named(release: dict[str, Any]) -> None:
    assert release["unequal"]({"a": "1", "b": "2"}, {"a": "1", "b": "2"}) == []
    assert release["unequal"]({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == ["b", "c"]

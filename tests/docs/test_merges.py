"""A merge leaves no traces: no file has merge markers, and no page has a second heading of level 1."""

from __future__ import annotations

import re
import subprocess

import pytest
from markdown_it import MarkdownIt

from tests.docs.source_tree import ROOT, files, relative_path

# Seven "=" are not searched for, as they underline a heading in some formats: a conflict has the other markers too.
MARKER = re.compile(rb"^(?:<{7}|>{7}|\|{7})(?: |\r?$)", re.MULTILINE)


def tracked_files() -> list[str]:
    output = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [name.decode() for name in output.split(b"\0") if name]


def headings_of_level_1(text: str) -> int:
    return sum(token.type == "heading_open" and token.tag == "h1" for token in MarkdownIt().parse(text))


def test_no_tracked_file_has_merge_markers() -> None:
    tracked = tracked_files()
    assert len(tracked) > 1000
    existing = [name for name in tracked if (ROOT / name).is_file()]
    assert [name for name in existing if MARKER.search((ROOT / name).read_bytes())] == []


def test_each_page_has_one_heading_of_level_1() -> None:
    pages = [*files("docs", suffix=".md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    assert len(pages) > 50
    counts = {relative_path(page): headings_of_level_1(page.read_text(encoding="utf-8")) for page in pages}
    assert {page: count for page, count in counts.items() if count != 1} == {}


@pytest.mark.parametrize(
    ("text", "has_markers", "headings"),
    [
        ("# A page\n\ntext\n", False, 1),
        ("# A page\n\n" + "<" * 7 + " HEAD\none\n" + "=" * 7 + "\ntwo\n" + ">" * 7 + " other\n", True, 2),
        ("# A page\n\n" + "|" * 7 + " base\n", True, 1),
        ("# A page\n\n```sh\n# a comment\n```\n", False, 1),
        ("# A page\n\n    " + ">" * 7 + " quoted\n", False, 1),
        ("no heading\n", False, 0),
    ],
)
def test_detection_of_markers_and_headings(text: str, has_markers: bool, headings: int) -> None:
    assert (MARKER.search(text.encode()) is not None) is has_markers
    assert headings_of_level_1(text) == headings

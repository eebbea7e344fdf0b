"""Texts that are forbidden in the repository: loose ends, disabled tests, and paths of one machine."""

from __future__ import annotations

import re

import pytest

from tests.docs.source_tree import CODE, files, relative_path, text_files

# Written in two pieces, so that this file does not contain the patterns itself.
ANYWHERE = {
    "a loose end": re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b"),
    "a path of one machine": re.compile(r"(?<![\w.$}*])/(?:wo" r"rk|tm" r"p|ro" r"ot)/\w"),
    "a path outside the repository": re.compile(r"\.\./sha" r"red"),
    "a ticket number in place of a reason": re.compile(r"\b[Ii]ss" r"ue #?\d"),
}
IN_CODE = {
    "a stub": re.compile(r"NotImplemented" r"Error"),
    "a test that does not run": re.compile(r"pytest\.(?:mark\.)?(?:sk" r"ip|xf" r"ail)"),
    "an ignored type error without its code": re.compile(r"# type: " r"ignore(?!\[)"),
    "an exception swallowed whole": re.compile(r"except(?: Exception)?:\s*pass"),
    "a wait for luck": re.compile(r"^\s*time\.sle" r"ep\(", re.MULTILINE),
}
# The embedded server polls processes that give no other sign.
MAY_SLEEP = {"broker/store/connection/embedded.py"}


#: This conversion is written only once, in broker/domain/instants.py.
INSTANTS = re.compile(r"astimezone\(UTC\)\.replace\(tzinfo=None\)")


def findings(text: str, patterns: dict[str, re.Pattern[str]]) -> list[str]:
    return [
        f"line {text.count(chr(10), 0, match.start()) + 1}: {meaning}: {match[0]!r}"
        for meaning, pattern in patterns.items()
        for match in pattern.finditer(text)
    ]


def test_no_file_has_loose_ends_or_paths_of_one_machine() -> None:
    findings_by_file = {
        relative_path(path): findings(path.read_text(encoding="utf-8"), ANYWHERE) for path in text_files()
    }
    assert len(findings_by_file) > 100
    assert {name: lines for name, lines in findings_by_file.items() if lines} == {}


def test_code_has_no_stubs_or_disabled_tests() -> None:
    wrong = {}
    for path in files(*CODE, "tests"):
        lines_of_file = findings(path.read_text(encoding="utf-8"), IN_CODE)
        wrong[relative_path(path)] = [
            line for line in lines_of_file if not (relative_path(path) in MAY_SLEEP and "a wait for luck" in line)
        ]
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def test_instants_become_naive_in_one_place() -> None:
    places = [
        relative_path(path) for path in files("broker", "agents") if INSTANTS.search(path.read_text(encoding="utf-8"))
    ]
    assert places == ["broker/domain/instants.py"]


def test_every_file_begins_with_postponed_annotations() -> None:
    statement = "from __future__ import annotations"
    lacking = [
        relative_path(path)
        for path in files(*CODE, "tests")
        if path.read_text(encoding="utf-8").strip() and statement not in path.read_text(encoding="utf-8")
    ]
    assert [name for name in lacking if not name.endswith("__init__.py")] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("see /wo" + "rk/main/x", 1),
        ("read ../sha" + "red/a.md", 1),
        ("solves iss" + "ue 12", 1),
        ("# TO" + "DO later", 1),
        ("a network/tm" + "p/x and ${HOME}/wo" + "rk/x", 0),
        ("an issue of taste", 0),
    ],
)
def test_the_patterns_match_forbidden_texts(text: str, count: int) -> None:
    assert len(findings(text, ANYWHERE)) == count

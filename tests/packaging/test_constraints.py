"""Pinned versions: each direct requirement is pinned within its range; the environment is checked against the pins."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Extras that are not installed in the environment of CI.
NOT_TESTED = {"audit", "rucio", "submitter"}


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def direct_requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"]
    lines = PROJECT["dependencies"] + [
        line
        for name, requirements in extras.items()
        if name not in NOT_TESTED
        for line in requirements
        if "gridbroker" not in line
    ]
    return [Requirement(line) for line in lines]


def test_every_direct_requirement_is_pinned_to_a_matching_version() -> None:
    version_of = pins()
    missing = [
        str(requirement)
        for requirement in direct_requirements()
        if not requirement.specifier.contains(
            version_of.get(canonicalize_name(requirement.name), "0"), prereleases=True
        )
    ]
    assert missing == [], "run: .venv/bin/python .ci/pin"


def test_the_pins_are_sorted_and_unique() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    names = [line.split("==")[0] for line in lines]
    assert names == sorted(set(names))
    assert "gridbroker" not in pins()


def test_the_environment_is_compared_with_the_pins(tmp_path: Path) -> None:
    """Run on a copy: with one pin too many, the difference is named."""
    (tmp_path / ".ci").mkdir()
    script = tmp_path / ".ci" / "pin"
    script.write_text((ROOT / ".ci" / "pin").read_text(encoding="utf-8"), encoding="utf-8")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, str(script), *words], check=False, capture_output=True, text=True)

    assert run().returncode == 0
    assert run("--check").returncode == 0
    with (tmp_path / "constraints.txt").open("a", encoding="utf-8") as file:
        file.write("no-such-package==1.0\n")
    result = run("--check")
    assert (result.returncode, result.stderr) == (1, "not installed: no-such-package==1.0\n")


FLAW = {"id": "PYSEC-1", "fix_versions": ["2.0"], "aliases": [], "description": ""}


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        (None, 0, "not checked: the data"),
        ([], 0, "not checked: the data"),
        ([{"name": "a", "skip_reason": "not found"}], 0, "not checked: the data"),
        ([{"name": "a", "version": "1", "vulns": []}], 0, "1 packages checked, 0 known"),
        ([{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "no"}], 0, "not checked: b: no"),
        ([{"name": "a", "version": "1", "vulns": [FLAW]}], 1, "a 1: PYSEC-1, fixed in 2.0"),
        ([{"name": "a", "version": "1", "vulns": [{**FLAW, "fix_versions": []}]}], 1, "fixed in no version"),
    ],
)
def test_a_known_vulnerability_fails_the_audit(
    answer: Any, status: int, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "no network" if answer is None else json.dumps({"dependencies": answer, "fixes": []})
    result = subprocess.CompletedProcess([], 1, stdout=text, stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **settings: result)
    main: Callable[[], int] = runpy.run_path(str(ROOT / ".ci" / "audit"))["main"]
    assert main() == status
    assert message in capsys.readouterr().out


def test_an_audit_that_times_out_passes_as_not_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*arguments: Any, **settings: Any) -> None:
        raise subprocess.TimeoutExpired("pip_audit", 1)

    monkeypatch.setattr(subprocess, "run", late)
    assert runpy.run_path(str(ROOT / ".ci" / "audit"))["main"]() == 0
    assert "not checked" in capsys.readouterr().out

"""What is said of another panda-server: changed decisions by rule, and the commits that touched the brokers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from drift.commits import commits_since
from drift.environment import InstallError, copied, is_path
from drift.report import changed, report


def difference(task: int, *causes: str, **weights: float) -> dict[str, Any]:
    """A decision of PanDA's that is not equal to ours."""
    return {"seed": 1, "task": task, "dataset": None, "ramcount": 0, "causes": list(causes), "theirs": weights}


def measured(version: str, *differences: dict[str, Any], error: str = "") -> dict[str, Any]:
    """A measurement of one brokerage."""
    one = {"profile": "panda", "grids": 2, "results": 10, "error": error, "differences": list(differences)}
    return {"version": version, "kinds": {"production_job": one}}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [], []),
        ([], [difference(1, "weight")], [(1, "new")]),
        ([difference(1, "weight")], [], [(1, "gone")]),
        ([difference(1, "x", A=1.0)], [difference(1, "y", A=1.0 + 1e-12)], []),
        ([difference(1, "x", A=1.0)], [difference(1, "x", A=2.0)], [(1, "other")]),
        ([difference(1, "x", A=1.0)], [difference(1, "x", B=1.0)], [(1, "other")]),
    ],
)
def test_a_decision_has_changed_if_it_is_not_equal_to_ours_as_before(before: Any, after: Any, expected: Any) -> None:
    then, now = measured("1", *before), measured("2", *after)
    found = changed(then["kinds"]["production_job"], now["kinds"]["production_job"])
    assert [(one["task"], how) for one, how in found] == expected


def test_the_report_counts_by_rule_with_an_example() -> None:
    before = measured("1.0.4", difference(3, "ours: disk"))
    after = measured("1.0.5", difference(1, "weight"), difference(2, "weight", "ours: io"))
    text = report(before, after, "1.0.5", None)
    assert "| production_job | panda | 2 | 10 | 90.00% | 80.00% | 3 |" in text
    assert "- production_job, weight: 2 equal before, different from ours now (task 1:" in text
    assert "- production_job, ours: disk: 1 different from ours before, equal now (task 3:" in text
    assert "Commits" not in text


def test_what_cannot_be_run_is_told_as_such() -> None:
    text = report(measured("1.0.4"), measured("2.0.0", error="ImportError: no module x (y.py 1)"), "2.0.0", None)
    assert "| could not be run | not known |" in text
    assert "- production_job could not be run with 2.0.0: ImportError: no module x (y.py 1)" in text
    assert "None." not in text


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A history: release 1.0.2, a commit on a broker, one elsewhere, release 1.0.5, a commit on a broker."""

    def git(*arguments: str) -> None:
        own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "tag.gpgSign=false", "-c", "commit.gpgSign=false")
        subprocess.run(["git", "-C", str(tmp_path), *own, *arguments], check=True, capture_output=True)  # noqa: S607

    def commit(file: str, subject: str) -> None:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(subject)
        git("add", ".")
        git("commit", "-m", subject)

    git("init", "-b", "main")
    commit("pandajedi/jedibrokerage/GenJobBroker.py", "first")
    git("tag", "1.0.2")
    commit("pandajedi/jedibrokerage/GenJobBroker.py", "second")
    commit("pandajedi/jediorder/Other.py", "elsewhere")
    git("tag", "1.0.5")
    commit("pandaserver/brokerage/SiteMapper.py", "third")
    return tmp_path


def subjects(checkout: Path, release: str) -> tuple[str, list[str]]:
    """The release that is counted from, and the subjects of the commits."""
    found = commits_since(checkout, release)
    assert found is not None
    return found.since, [line.split(" ", 2)[2] for line in found.lines]


def test_commits_are_those_that_touched_the_brokers(checkout: Path) -> None:
    assert subjects(checkout, "1.0.5") == ("1.0.5", ["third"])
    # a release that the history does not know: from the newest before it
    assert subjects(checkout, "1.0.4") == ("1.0.2", ["third", "second"])
    assert subjects(checkout, "0.1.0") == ("", ["third", "second", "first"])
    found = commits_since(checkout, "1.0.4")
    assert "The history does not know 1.0.4" in report(measured("1.0.4"), measured("1.0.6"), str(checkout), found)


def test_a_folder_without_history_gives_no_commits(tmp_path: Path) -> None:
    assert commits_since(tmp_path, "1.0.4") is None


def test_a_checkout_is_copied_as_it_is_and_a_bare_repository_at_its_newest_commit(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target, bare = tmp_path_factory.mktemp("target"), tmp_path_factory.mktemp("bare") / "repo"
    subprocess.run(["git", "clone", "-q", "--bare", str(checkout), str(bare)], check=True)  # noqa: S607
    assert (copied(bare, target) / "pandajedi/jedibrokerage/GenJobBroker.py").read_text() == "second"
    (checkout / "pyproject.toml").write_text("not committed")
    other = tmp_path_factory.mktemp("other")
    assert (copied(checkout, other) / "pyproject.toml").read_text() == "not committed"
    with pytest.raises(InstallError, match="neither a checkout nor a repository"):
        copied(tmp_path_factory.mktemp("empty"), tmp_path_factory.mktemp("nothing"))


@pytest.mark.parametrize(("server", "path"), [("1.0.4", False), ("./clone", True), ("/a/b", True)])
def test_a_path_is_told_from_a_release(server: str, path: bool) -> None:
    assert is_path(server) is path

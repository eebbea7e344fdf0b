"""Checks that the tests of each package of ``broker/`` and ``agents/`` are in a folder with its name."""

from __future__ import annotations

from tests.docs.source_tree import ROOT, files

#: Folders of tests that belong to no package of ``broker/``, with what they test.
OTHERS = {
    "agents": "the packages of agents/, in folders of the same names",
    "benchmarks": "benchmarks/",
    "browser": "the page as Chromium shows it",
    "client": "gridbroker_client/",
    "contract": "what other programs depend on",
    "docs": "the pages of docs/, and the structure of the tree",
    "fault": "services that are killed, paused, cut off or upgraded",
    "helm": "deploy/helm/, rendered",
    "image": "the image that Dockerfile describes",
    "operations": "backup and replicas on several hosts",
    "packaging": "wheels, releases, pyproject.toml and the Makefile",
    "panda_client": "the real panda-client",
    "real_pilot": "the real pilot",
    "replay": "stored cycles of each brokerage, decided again",
    "rucio": "a real Rucio server",
    "slurm": "a real Slurm",
}


def packages(folder: str, name: str = "") -> set[str]:
    """The folders directly below a folder that have Python files whose names begin with ``name``, at any depth."""
    paths = [path.relative_to(ROOT / folder) for path in files(folder) if path.name.startswith(name)]
    return {path.parts[0] for path in paths if len(path.parts) > 1}


def test_every_folder_of_tests_is_a_package_or_says_what_it_tests() -> None:
    assert sorted(packages("tests") - packages("broker") - OTHERS.keys()) == []
    assert sorted(packages("tests/agents") - packages("agents")) == []


def test_every_package_has_a_folder_of_tests() -> None:
    assert sorted(packages("broker") - packages("tests", "test_")) == []
    assert sorted(packages("agents") - packages("tests/agents", "test_")) == []


def test_the_other_folders_exist_and_are_no_packages() -> None:
    assert sorted(OTHERS.keys() - packages("tests", "test_")) == sorted(OTHERS.keys() & packages("broker")) == []

"""A package that two distributions install is refused; the error names both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.errors import REFUSED
from broker.resources import SharedPackage, other_owners, require_own_packages

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ({}, {}),
        ({"agents": ["gridbroker"], "broker": ["gridbroker", "gridbroker"]}, {}),
        ({"numpy": ["numpy"], "other": ["a", "b"]}, {}),
        ({"agents": ["gridbroker", "openai-agents"]}, {"agents": ("openai-agents",)}),
        ({"agents": ["openai-agents", "openai-agents"]}, {"agents": ("openai-agents",)}),
        ({"agents": ["z", "gridbroker", "a"], "broker": ["b"]}, {"agents": ("a", "z"), "broker": ("b",)}),
    ],
)
def test_other_owners_of_our_packages(owners: dict[str, list[str]], expected: dict[str, tuple[str, ...]]) -> None:
    assert other_owners(owners) == expected


def test_the_refusal_names_both_distributions_and_the_remedy() -> None:
    with pytest.raises(SharedPackage) as refusal:
        require_own_packages({"agents": ["gridbroker", "openai-agents"]})
    assert refusal.value.exit_status == REFUSED
    assert refusal.value.what == "gridbroker and openai-agents both install the package agents"
    assert "environment of its own" in refusal.value.remedy


def add_distribution(folder: Path, package: str) -> None:
    """Write the metadata of a distribution that installs the package, as pip would."""
    metadata = folder / "other_agents-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other-agents\nVersion: 1.0\n")
    (metadata / "RECORD").write_text(f"{package}/__init__.py,,\n")
    (metadata / "top_level.txt").write_text(f"{package}\n")


@pytest.mark.parametrize("command", [["serve", "--once"], ["api", "--port", "0"]])
def test_the_service_does_not_start_beside_the_other_distribution(command: list[str], tmp_path: Path) -> None:
    add_distribution(tmp_path / "others", "agents")
    result = subprocess.run(
        [sys.executable, "-m", "broker.cli.entry", *command],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "others"), "BROKER_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == REFUSED, result.stderr
    assert "other-agents both install the package agents" in " ".join(result.stderr.split())
    assert not (tmp_path / "home").exists()


def test_an_overwritten_package_is_explained(tmp_path: Path) -> None:
    add_distribution(tmp_path / "others", "agents")
    (tmp_path / "others" / "agents").mkdir()
    (tmp_path / "others" / "agents" / "__init__.py").write_text("")
    result = subprocess.run(
        [sys.executable, "-m", "broker.cli.entry", "serve", "--once"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "others"), "BROKER_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == REFUSED, result.stderr
    assert "other-agents both install the package agents" in " ".join(result.stderr.split())

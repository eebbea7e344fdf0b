"""``make`` reports that a machine has no usable Python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run make with a virtual environment that does not exist; make must not create it."""
    command = ["make", "-C", str(ROOT), f"VENV={folder / 'venv'}", *words]
    # The tests may have been started by make, whose variables would be inherited.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))
    }
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=60)


@pytest.fixture
def old_python(tmp_path: Path) -> Path:
    path = tmp_path / "python3"
    path.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.1"\nexit 1\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("goal", ["demo", "test"])
def test_a_python_that_is_too_old_is_reported(tmp_path: Path, old_python: Path, goal: str) -> None:
    result = make(tmp_path, goal, f"PYTHON={old_python}")
    assert result.returncode != 0
    assert f"error: {old_python} is not Python 3.11 to 3.14 (Python 3.9.1); name another" in result.stderr
    assert not (tmp_path / "venv").exists()


def test_a_missing_python_is_reported(tmp_path: Path) -> None:
    result = make(tmp_path, "demo", "PYTHON_CANDIDATES=no-such-python")
    assert result.returncode != 0
    assert "error: Python 3.11 to 3.14 is needed; none of: no-such-python" in result.stderr


def test_the_goals_are_explained() -> None:
    help_text = make(Path("unused")).stdout
    for goal in ("demo", "test", "test-rucio", "lint", "types", "bench", "soak", "audit", "wheel-test"):
        assert f"make {goal} " in help_text

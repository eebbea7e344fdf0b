"""Every test has a limit of time, and one that hangs fails with the stacks of its threads."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HANGING = """
import threading
def test_hangs() -> None:
    threading.Event().wait()
"""


def test_the_limit_is_set_for_all_tests(request: pytest.FixtureRequest) -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert options["timeout"] == 300
    assert float(request.config.getini("timeout")) == 300
    assert any(one.startswith("pytest-timeout") for one in options["required_plugins"])


def test_a_test_that_hangs_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(HANGING)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "timeout=1", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 1
    assert "Timeout" in done.stdout

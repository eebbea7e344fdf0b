"""Every test has a time limit; a test that hangs fails with the stacks of its threads."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database

pytestmark = pytest.mark.slow

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
    assert any(plugin.startswith("pytest-timeout") for plugin in options["required_plugins"])


def test_a_test_that_hangs_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(HANGING)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "timeout=1", str(tmp_path)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert result.returncode == 1
    assert "Timeout" in result.stdout


COMPILING = """
import threading
from tests import conftest
conftest.compile_once = lambda: threading.Event().wait(COMPILES_S)
conftest.COMPILING_LIMIT_S = LIMIT_S
def test_needs_the_compiler(compiled_loop) -> None:
    threading.Event().wait(TAKES_S)
"""


def test_a_nested_run_does_not_stop_the_servers_of_the_outer_run(tmp_path: Path, database: Database) -> None:
    (tmp_path / "test_it.py").write_text("def test_ends() -> None:\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest", str(tmp_path)]
    result = subprocess.run(
        command,
        check=False,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert result.returncode == 0
    with Database(database.url) as reopened, reopened.begin() as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1


@pytest.mark.parametrize(
    ("compiles_s", "limit_s", "takes_s", "status"),
    [(4, 60, 0, 0), (60, 2, 0, 1), (0, 60, 60, 1)],
    ids=["compiling is no part of the test", "compiling has a limit", "so has the test"],
)
def test_compiling_has_its_own_time_limit(
    tmp_path: Path, compiles_s: int, limit_s: int, takes_s: int, status: int
) -> None:
    values = {"COMPILES_S": compiles_s, "LIMIT_S": limit_s, "TAKES_S": takes_s}
    text = COMPILING.replace("COMPILING_LIMIT_S", "COMPILING_LIMIT")
    for name, value in values.items():
        text = text.replace(name, str(value))
    (tmp_path / "test_it.py").write_text(text.replace("COMPILING_LIMIT", "COMPILING_LIMIT_S"), encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.conftest", "-o", "timeout=2"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert (result.returncode, "Timeout" in result.stdout) == (status, status == 1), result.stdout + result.stderr

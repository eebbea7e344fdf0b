"""The walk-through for a new rule: its files are those of the example package, which is installed, tested and used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "examples" / "rule-package"
PAGE = (ROOT / "docs" / "how-to" / "add-a-rule.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
PROFILE = re.findall(r"^```yaml\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)

CHAIN = """
import json, sys
from broker.brokerages.profile import build_chain, read_profile
chain = build_chain(read_profile(sys.stdin.read()).of("production_job"))
print(json.dumps({"filters": [rule.name for rule in chain.filters], "weights": [rule.name for rule in chain.weights]}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds the installed example package."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(target), str(PACKAGE)], check=True)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(target), str(ROOT)]), "PYTHONDONTWRITEBYTECODE": "1"}


def run(env: dict[str, str], *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=env, input=text, capture_output=True, text=True, check=False)


def test_the_page_shows_the_files_of_the_package() -> None:
    assert {name for name, _ in SHOWN} == {
        "src/example_broker_rules/max_queued_here.py",
        "src/example_broker_rules/fast_cores.py",
        "tests/test_rules.py",
        "pyproject.toml",
    }
    for name, code in SHOWN:
        assert code == (PACKAGE / name).read_text(encoding="utf-8"), name


def test_the_rules_of_the_package_pass_their_tests(installed: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "test_rules.py").write_text(dict(SHOWN)["tests/test_rules.py"], encoding="utf-8")
    done = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_profile_puts_them_in_their_places(installed: dict[str, str]) -> None:
    (profile,) = PROFILE
    done = run(installed, "-c", CHAIN, text=profile)
    assert done.returncode == 0, done.stderr
    chain = json.loads(done.stdout)
    assert chain["filters"][chain["filters"].index("pilots") + 1] == "max_queued_here"
    assert chain["weights"][-1] == "fast_cores"


def test_an_installed_rule_does_nothing_until_it_is_named(installed: dict[str, str]) -> None:
    done = run(installed, "-c", CHAIN, text="profile: x\nbrokerages:\n  - brokerage: production_job\n")
    assert done.returncode == 0, done.stderr
    assert "max_queued_here" not in done.stdout and "fast_cores" not in done.stdout


def test_a_rule_that_is_not_installed_stops_the_start() -> None:
    (profile,) = PROFILE
    done = run({**os.environ, "PYTHONPATH": str(ROOT)}, "-c", CHAIN, text=profile)
    assert done.returncode != 0
    assert "max_queued_here" in done.stderr and "install" in done.stderr

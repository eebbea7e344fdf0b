"""Runs the commands of the page on the gate as written, on PanDA's tables with jobs placed by PanDA and by ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from broker import resources
from broker.errors import GATE_CLOSED
from broker.simulation.model.demo.facts import facts_from_texts
from broker.simulation.model.demo.grid import build_scenario
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import Scenario
from broker.store.schema import migrate
from tests.alongside import planted
from tests.alongside.conftest import READ, least_role
from tests.alongside.panda_forms import reshape
from tests.docs.source_tree import ROOT
from tests.docs.test_walk_alongside import MERGE, PRELUDE

pytestmark = pytest.mark.walk
PAGE = (ROOT / "docs" / "how-to" / "decide-on-the-switch.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
DAYS, DAY = 7, timedelta(days=1)
#: Label, its brokerage, and tasks per day: more than the shipped gate requires.
LABELS = (("managed", "production_job", 80), ("test", "production_job", 80), ("user", "analysis_job", 50))


@pytest.fixture
def site(make_database: Callable[..., Database]) -> Iterator[tuple[Database, Database]]:
    """The example grid alongside PanDA, opened by its owner and by a read-only role."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(resources.path("config/demo").glob("*.yaml"))]
    panda = make_database()
    load(panda, Scenario.of(build_scenario(facts_from_texts(texts), datetime.now(UTC), 1, True)))
    reshape(panda)
    with least_role(panda) as connect:
        database = connect(*READ)
        migrate.upgrade(database)
        planted.plant_cycles(database)
        yield panda, database


def plant(panda: Database, database: Database) -> None:
    """Insert a week of PanDA's jobs where ours wants them, and jobs of the plug-in at a queue that ours rejects."""
    now, first = datetime.now(UTC), 1
    for day in range(DAYS):
        for label, brokerage, tasks in LABELS:
            at = now - day * DAY - timedelta(hours=1)
            planted.plant_share(panda, database, tasks, 0, at=at, label=label, first=first, brokerage=brokerage)
            first += tasks
    ours = range(first, first + 50)
    at = now - timedelta(hours=2)
    planted.plant(panda, [planted.PlantedJobs(task, "C", at) for task in ours])
    planted.record(
        database, planted.RECORDED, at - timedelta(hours=1), [planted.decision_for(task, "A") for task in ours]
    )
    planted.record(database, None, at - timedelta(minutes=1), [planted.decision_for(task, "C") for task in ours])


def run(text: str, home: Path, database: Database) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BROKER_", "XDG_"))}
    variables = {"HOME": str(home), "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    variables |= {"BROKER_DATABASE_URL": database.url, "BROKER_CONFIG": str(home / "etc")}
    return subprocess.run(
        ["bash", "-c", PRELUDE + text],
        cwd=home,
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.timeout(500)
def test_the_page_from_top_to_bottom(site: tuple[Database, Database], tmp_path: Path) -> None:
    panda, database = site
    plant(panda, database)
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "agents.yaml").write_bytes(resources.path("config/agents.yaml").read_bytes())
    for kind, block in BLOCKS:
        text = block.replace("/etc/gridbroker", str(etc))
        if kind == "yaml":
            (tmp_path / "block.yaml").write_text(text, encoding="utf-8")
            (tmp_path / "merge.py").write_text(MERGE, encoding="utf-8")
            text = f"python merge.py {etc}/agents.yaml block.yaml"
        result = run(text, tmp_path, database)
        assert result.returncode == 0, text + result.stdout[-3000:] + result.stderr[-3000:]
    page = (tmp_path / "gate.html").read_text(encoding="utf-8")
    assert "the gate is open" in page and "50 jobs placed by ours" in page
    assert json.loads((tmp_path / "shadow.json").read_text(encoding="utf-8"))["brokerages"]
    doctor = run("broker doctor", tmp_path, database)
    assert doctor.returncode == 0 and "production_task (records only)" in doctor.stdout, doctor.stdout
    with database.read_snapshot() as connection:
        runs = "SELECT only_recorded, profile FROM broker.agent_runs WHERE id < 1000000"
        assert [tuple(row) for row in connection.exec_driver_sql(runs)] == [(True, "seed")]
        decisions = "SELECT count(*) FROM broker.decisions WHERE brokerage = 'production_task'"
        assert connection.exec_driver_sql(decisions).scalar_one() > 0, "it decided about the tasks that wait"
    _one_day_of_differences(panda, database)
    closed = run(f"broker shadow --gate {etc}/gate.yaml", tmp_path, database)
    assert closed.returncode == GATE_CLOSED, closed.stdout + closed.stderr
    assert "dest_blacklisted (panda_only)" in closed.stdout


def _one_day_of_differences(panda: Database, database: Database) -> None:
    at = datetime.now(UTC) - timedelta(minutes=40)
    planted.plant_share(panda, database, 60, 60, at=at, first=100_000)


def test_the_page_lists_every_exit_status_and_criterion() -> None:
    statuses = {
        int(number) for numbers in re.findall(r"^\| ([0-9, ]+) \|", PAGE, re.MULTILINE) for number in numbers.split(",")
    }
    assert statuses == {0, 1, 2, 3, 4, GATE_CLOSED}
    for name in ("days", "chunks", "agreement", "queue_share", "rule_share", "profile", "fall_backs", "doctor"):
        assert f"| `{name}` |" in PAGE

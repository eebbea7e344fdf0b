"""Doctor's findings on PanDA's server: the identity and role it gives us, and whether jobs can be ended through it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.service import registry
from agents.service.configuration import AgentSection, config_file, load
from broker import resources
from broker.alongside.answers.panda_server import server_findings
from broker.cli.entry import main
from broker.fetching.documents import Surroundings
from broker.service.answers.doctor import Finding
from broker.store.connection.database import Database
from broker.store.schema import migrate
from tests.agents.alongside.playing_panda import WHO, PlayedPanda, played_panda
from tests.alongside.conftest import READ

SECTIONS = load(config_file("agents.yaml"), registry.NAMES).agents
ON = {"timeouts": True, "fast_rebrokerage": True}


@pytest.fixture
def server() -> Iterator[PlayedPanda]:
    with played_panda() as panda:
        yield panda


def findings_for(options: dict[str, Any], **enabled: bool) -> list[Finding]:
    agents: dict[str, AgentSection] = {
        name: SECTIONS[name].model_copy(update={"options": options}) for name in ("timeouts", "fast_rebrokerage")
    }
    return server_findings(agents, enabled or ON, Surroundings(time.monotonic, lambda: 0.5, lambda seconds: None))


def test_with_the_production_role_the_finding_is_ok_and_the_server_gets_one_request(server: PlayedPanda) -> None:
    (finding,) = findings_for(server.options(origin="atlas:production"))
    assert finding.level == "ok" and finding.what == (
        "fast_rebrokerage, timeouts: PanDA takes us for Grid Broker with production role (origin atlas:production)"
    )
    assert [(path, headers["Origin"]) for path, _, headers in server.asked] == [(WHO, "atlas:production")]


def test_a_missing_production_role_is_a_problem_that_names_the_origin(server: PlayedPanda) -> None:
    server.production = False
    (finding,) = findings_for(server.options(origin="atlas"))
    assert finding.level == "problem" and "no production role (origin atlas)" in finding.what
    assert "atlas:production" in finding.remedy


def test_agents_that_are_off_or_use_sql_send_no_request(server: PlayedPanda) -> None:
    assert findings_for(server.options(), timeouts=False) == []
    assert findings_for(server.options() | {"through": "sql"}) == []
    assert server.asked == []


def test_a_missing_or_unreachable_server_is_a_problem(server: PlayedPanda) -> None:
    (finding,) = findings_for({}, timeouts=True)
    assert (finding.level, finding.what) == ("problem", "timeouts: no server of PanDA's is named")
    (finding,) = findings_for({"panda_api": {"address": "http://127.0.0.1:1/api"}}, timeouts=True)
    assert finding.level == "problem" and "cannot be asked" in finding.what


def test_doctor_reports_role_and_job_generation_and_exits_with_1(
    least: Callable[..., Database], server: PlayedPanda, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    database = least(*READ)
    migrate.upgrade(database)
    agents = yaml.safe_load(resources.path("config/agents.yaml").read_text(encoding="utf-8"))
    agents["agents"]["timeouts"] |= {"enabled": True, "options": server.options(origin="atlas")}
    (tmp_path / "agents.yaml").write_text(yaml.safe_dump(agents), encoding="utf-8")
    (tmp_path / "broker.yaml").write_text("job_generation: broker\n", encoding="utf-8")
    monkeypatch.setenv("BROKER_DATABASE_URL", database.url)
    monkeypatch.setenv("BROKER_CONFIG", str(tmp_path))
    server.production = False
    with pytest.raises(SystemExit) as exit_info:
        main(["doctor", "--json"])
    findings = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    problems = {finding["topic"]: finding["what"] for finding in findings if finding["level"] == "problem"}
    assert exit_info.value.code == 1
    assert "no production role (origin atlas)" in problems["panda_server"]
    assert "the task would never end" in problems["job_generation"]

"""What doctor says of PanDA's server: whom it takes us for, and whether jobs can be ended so."""

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
    with played_panda() as played:
        yield played


def asked(options: dict[str, Any], **enabled: bool) -> list[Finding]:
    agents: dict[str, AgentSection] = {
        name: SECTIONS[name].model_copy(update={"options": options}) for name in ("timeouts", "fast_rebrokerage")
    }
    return server_findings(agents, enabled or ON, Surroundings(time.monotonic, lambda: 0.5, lambda seconds: None))


def test_with_the_production_role_all_is_well_and_a_server_is_asked_once(server: PlayedPanda) -> None:
    (found,) = asked(server.options(origin="atlas:production"))
    assert found.level == "ok" and found.what == (
        "fast_rebrokerage, timeouts: PanDA takes us for Grid Broker with production role (origin atlas:production)"
    )
    assert [(path, headers["Origin"]) for path, _, headers in server.asked] == [(WHO, "atlas:production")]


def test_without_the_role_it_is_a_problem_that_names_the_origin(server: PlayedPanda) -> None:
    server.production = False
    (found,) = asked(server.options(origin="atlas"))
    assert found.level == "problem" and "no production role (origin atlas)" in found.what
    assert "atlas:production" in found.remedy


def test_agents_that_are_off_or_write_rows_ask_nobody(server: PlayedPanda) -> None:
    assert asked(server.options(), timeouts=False) == []
    assert asked(server.options() | {"through": "sql"}) == []
    assert server.asked == []


def test_a_server_that_is_not_named_or_does_not_answer_is_a_problem(server: PlayedPanda) -> None:
    (found,) = asked({}, timeouts=True)
    assert (found.level, found.what) == ("problem", "timeouts: no server of PanDA's is named")
    (found,) = asked({"panda_api": {"address": "http://127.0.0.1:1/api"}}, timeouts=True)
    assert found.level == "problem" and "cannot be asked" in found.what


def test_doctor_says_both_and_ends_with_a_problem(
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
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--json"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    problems = {one["topic"]: one["what"] for one in found if one["level"] == "problem"}
    assert ended.value.code == 1
    assert "no production role (origin atlas)" in problems["panda_server"]
    assert "the task would never end" in problems["job_generation"]

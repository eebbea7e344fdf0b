"""The recipes of the documentation of the client run; answers have the fields of their types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints, is_typeddict

import pytest

from broker.api.server import ApiServer
from gridbroker_client import BrokerClient, answers, client
from tests.api.decided import decided_server
from tests.api.serving import TOKEN
from tests.brokerages.small_grid import TASK
from tests.conftest import TestServer
from tests.docs.make_client_answers import FOLDER, modules, same
from tests.docs.source_tree import ROOT

PAGE = (ROOT / "docs/how-to/use-the-python-client.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"^## (.*?)\n\n```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
SERVER = "https://broker.example.org"


@pytest.fixture(scope="module")
def server(test_server: TestServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with decided_server(test_server, tmp_path_factory.mktemp("home")) as (_, api_server):
        yield api_server


@pytest.fixture
def broker(server: ApiServer) -> Iterator[BrokerClient]:
    with BrokerClient(server.url, TOKEN) as broker_client:
        yield broker_client


def test_there_are_five_recipes() -> None:
    assert len(RECIPES) == 5


@pytest.mark.parametrize("code", [code for _, code in RECIPES], ids=[title for title, _ in RECIPES])
def test_a_recipe_runs(
    server: ApiServer, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with BrokerClient(server.url, TOKEN) as preparing_client:
        preparing_client.pause("timeouts", reason="so that there is an alarm", for_s=3600)
    monkeypatch.chdir(tmp_path)
    assert SERVER in code
    source = code.replace(SERVER, server.url).replace('every_task(user="alice")', "every_task()")
    exec(compile(source, "recipe", "exec"), {})  # noqa: S102 - a page of this repository
    assert capsys.readouterr().out or "config_set" in code


def test_lists_are_read_page_by_page(broker: BrokerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAGE", 1)
    tasks = [line["task"]["jeditaskid"] for line in broker.every_task()]
    assert len(tasks) == len(set(tasks)) == broker.tasks()["total"] == 3
    assert list(broker.every_notification()) == []
    assert [job["pandaid"] for job in broker.every_job()] == [job["pandaid"] for job in broker.jobs(limit=500)["jobs"]]


def test_types_match_the_api_description() -> None:
    different = [name for name, text in modules().items() if not same((FOLDER / f"{name}.py").read_text("utf-8"), text)]
    assert different == [], "run `make reference`"


def test_answers_have_the_fields_of_their_types(broker: BrokerClient) -> None:
    typed_answers: list[tuple[type, Any]] = [
        (answers.TaskList, broker.tasks()), (answers.TaskDecision, broker.explain(TASK)),
        (answers.WhyNot, broker.why_not(TASK + 2, "ALPHA_MCORE")), (answers.History, broker.history(TASK)),
        (answers.Queues, broker.queues()), (answers.QueueAnswer, broker.queue("ALPHA_MCORE")),
        (answers.ServiceAnswer, broker.agents()), (answers.Alarms, broker.alarms()), (answers.Me, broker.whoami()),
        (answers.Reasons, broker.reasons()), (answers.Shares, broker.shares()), (answers.JobList, broker.jobs()),
    ]  # fmt: skip
    for kind, answer in typed_answers:
        assert is_typeddict(kind) and set(answer) == set(get_type_hints(kind)), kind


def test_decisions_are_evaluated_only_on_request(broker: BrokerClient) -> None:
    assert not broker.explain(TASK + 2)["decisions"][0]["remedies"]["evaluated"]
    assert not broker.queue("ALPHA_MCORE")["limits"]

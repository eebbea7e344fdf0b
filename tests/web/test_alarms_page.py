"""Acknowledging alarms on the page, over HTTP and by the command, with a record."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from broker.api.server import ApiServer
from broker.service.answers.acknowledging import marked
from broker.service.answers.alarm_sentences import alarm_kinds
from broker.service.answers.models import Alarm
from broker.service.pages.alarms import alarms_sentence
from broker.store.connection.database import Database
from broker.store.service.acknowledged_alarms import Acknowledgement, held, history
from tests.api.serving import client_of
from tests.cli.commands import runner

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
V1 = "/api/v1"


def alarm(about: str, severity: Any = "warning", **more: Any) -> Alarm:
    values = {"value": 1, "limit": 0, "unit": "", "key": "k", "details": {"what": "jobs fail"}, "since": NOW}
    return Alarm(code="queue_closed", severity=severity, about=about, **{**values, **more})


def acknowledgement(about: str, severity: str = "warning") -> Acknowledgement:
    return Acknowledgement(
        code="queue_closed", about=about, severity=severity, reason="ticket 7", editor="ann", set_at=NOW,
        until=NOW + timedelta(hours=8), ended_at=None, ended_by=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("now", "then", "counts"), [("warning", "warning", True), ("info", "warning", True), ("critical", "warning", False)]
)
def test_an_acknowledgement_does_not_cover_a_graver_alarm(now: str, then: str, counts: bool) -> None:
    (result,) = marked([alarm("BNL", now)], [acknowledgement("BNL", then), acknowledgement("CERN", then)])
    assert (result.acknowledged is not None) is counts
    if result.acknowledged:
        assert (result.acknowledged.editor, result.acknowledged.reason) == ("ann", "ticket 7")


def test_alarms_are_grouped_by_kind_and_acknowledgement() -> None:
    older = alarm("TRIUMF", since=NOW - timedelta(hours=2))
    kinds = alarm_kinds(marked([alarm("BNL"), alarm("CERN"), older], [acknowledgement("CERN")]))
    assert [([member.about for member in kind.alarms], kind.looked_at, kind.since) for kind in kinds] == [
        (["BNL", "TRIUMF"], "", NOW - timedelta(hours=2)),
        (["CERN"], "ann: ticket 7", NOW),
    ]
    assert "likewise 1 other (TRIUMF)" in kinds[0].sentence
    assert alarms_sentence(kinds) == "3 alarms; nobody looks yet at 2, of which 0 critical."
    assert alarms_sentence([]).startswith("Nothing is")


@pytest.fixture
def api_client(site: ApiServer) -> Iterator[httpx.Client]:
    """A client of the API; two agents are paused, which raises two alarms."""
    with client_of(site) as client:
        for agent in ("timeouts", "activation"):
            assert client.post(f"{V1}/agents/{agent}:pause", json={"reason": "downtime", "for_s": 3600}).is_success
        yield client
        client.post(f"{V1}/alarms/agent_paused:takeback", json={})
        for agent in ("timeouts", "activation"):
            client.post(f"{V1}/agents/{agent}:resume")


def acknowledged_reasons(client: httpx.Client) -> dict[str, str | None]:
    alarms = client.get(f"{V1}/alarms").json()["alarms"]
    by_agent = {line["about"]: line["acknowledged"] for line in alarms if line["code"] == "agent_paused"}
    return {about: mark and mark["reason"] for about, mark in by_agent.items()}


def test_one_alarm_or_a_whole_kind_is_acknowledged_over_http_and_recorded(
    api_client: httpx.Client, decided: Database
) -> None:
    path = f"{V1}/alarms/agent_paused:acknowledge"
    assert acknowledged_reasons(api_client) == {"activation": None, "timeouts": None}
    answer = api_client.post(path, json={"reason": " ticket 7 ", "about": "timeouts", "for_s": 600})
    assert answer.json() == {"code": "agent_paused", "about": ["timeouts"]}
    assert acknowledged_reasons(api_client) == {"activation": None, "timeouts": "ticket 7"}
    assert api_client.get(f"{V1}/alarms").json()["alarms"][-1]["about"] == "timeouts"
    assert api_client.post(path, json={"reason": "all"}).json()["about"] == ["activation", "timeouts"]
    assert api_client.post(f"{V1}/alarms/agent_paused:takeback", json={"about": "timeouts"}).json()["about"] == [
        "timeouts"
    ]
    assert acknowledged_reasons(api_client) == {"activation": "all", "timeouts": None}
    with decided.begin() as connection:
        assert [active.about for active in held(connection)] == ["activation"]
        records = [(record.about, record.reason, record.ended_by is None) for record in history(connection)][:3]
    assert sorted(records) == [("activation", "all", True), ("timeouts", "all", False), ("timeouts", "ticket 7", False)]
    acknowledgements = api_client.get(f"{V1}/alarms/acknowledgements").json()["acknowledgements"]
    assert {record["reason"] for record in acknowledgements} >= {"all", "ticket 7"}


@pytest.mark.parametrize(
    ("code", "body", "status"),
    [
        ("agent_paused", {"reason": "r", "about": "nobody"}, 404),
        ("no_leader", {"reason": "r"}, 404),
        ("no_such_alarm", {"reason": "r"}, 422),
        ("agent_paused", {"reason": "  "}, 422),
        ("agent_paused", {"reason": "r", "for_s": 31 * 86400}, 422),
    ],
)
def test_what_is_refused(api_client: httpx.Client, code: str, body: dict[str, Any], status: int) -> None:
    answer = api_client.post(f"{V1}/alarms/{code}:acknowledge", json=body)
    assert answer.status_code == status, answer.text
    assert set(acknowledged_reasons(api_client).values()) == {None}


def test_acknowledging_needs_a_token(site: ApiServer) -> None:
    with client_of(site, {}) as stranger:
        assert stranger.post(f"{V1}/alarms/agent_paused:acknowledge", json={"reason": "r"}).status_code == 401


def test_a_kind_has_a_form_and_the_front_page_shows_acknowledgements(
    api_client: httpx.Client, logged_in_client: httpx.Client, stranger: httpx.Client
) -> None:
    assert 'action="/alarms/agent_paused"' not in stranger.get("/alarms").text
    page = logged_in_client.get("/alarms").text
    assert "agent paused \u00d7 2" in page
    token = re.search(r'name="csrf" value="([^"]+)"', page)
    assert token is not None
    fields = {"csrf": token[1], "reason": "ticket 8", "hours": "2"}
    assert logged_in_client.post("/alarms/agent_paused", data={**fields, "hours": "two"}).status_code == 422
    assert logged_in_client.post("/alarms/agent_paused", data=fields).headers["location"] == "/alarms"
    assert acknowledged_reasons(api_client) == {"activation": "ticket 8", "timeouts": "ticket 8"}
    assert "acknowledged" in logged_in_client.get("/").text and "ticket 8" in logged_in_client.get("/alarms").text
    logged_in_client.post("/alarms/agent_paused", data={"csrf": token[1], "back": "1"})
    assert set(acknowledged_reasons(api_client).values()) == {None}


def test_the_command_acknowledges_too(
    api_client: httpx.Client, decided: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = runner(capsys, "--db", decided.url)
    result = broker("acknowledge", "agent_paused", "timeouts", "--reason", "ticket 9", "--for", "1h", "--editor", "ann")
    assert result.status == 0 and acknowledged_reasons(api_client)["timeouts"] == "ticket 9"
    assert "ann: ticket 9" in broker("alarms").out
    assert broker("acknowledge", "agent_paused", "--take-back", "--editor", "bob").status == 0
    assert broker("acknowledge", "agent_paused", "--take-back").status != 0
    assert broker("acknowledge", "agent_paused", "--reason", "r", "--for", "90d").status != 0

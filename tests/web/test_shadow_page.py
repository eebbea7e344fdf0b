"""Shadow mode and its gate: the API and the page agree with the command."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from broker.alongside.pages import shadow
from broker.store.connection.database import Database
from tests.cli.commands import runner
from tests.web.test_other_pages import without_time


def test_api_and_command_agree(
    logged_in_client: httpx.Client, decided: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = logged_in_client.get("/api/v1/shadow", params={"last_h": 48, "max_age_h": 3})
    assert answer.status_code == 200, answer.text
    document = runner(capsys, "--db", decided.url)("shadow", "--last", "48h", "--max-age", "3h", "--json").document
    assert _timeless(answer.json()) == _timeless(document)


def _timeless(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in ("since", "until", "now")}


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({"last_h": 0}, 422),
        ({"last_h": 24 * 90}, 200),
        ({"last_h": 24 * 90 + 1}, 422),
        ({"max_age_h": "nan"}, 422),
        ({"brokerage": "nothing"}, 404),
        ({"brokerage": "production_job"}, 200),
    ],
)
def test_parameters_are_checked(logged_in_client: httpx.Client, params: dict[str, Any], status: int) -> None:
    assert logged_in_client.get("/api/v1/shadow", params=params).status_code == status


def test_the_page_shows_the_gate(logged_in_client: httpx.Client) -> None:
    page = logged_in_client.get("/shadow")
    assert page.status_code == 200, page.text
    for words in ("the gate stays closed", "Criteria of gate.yaml", "agreement, lower bound", "What was compared"):
        assert words in page.text, words
    assert page.text.count("<h1>") == 1 and page.text.count("<table") == page.text.count("<caption>")
    first = logged_in_client.get("/shadow", headers={"Accept": "application/json"}).json()
    second = logged_in_client.get("/api/v1/shadow/gate").json()
    first["shadow"], second["shadow"] = _timeless(first["shadow"]), _timeless(second["shadow"])
    assert without_time(first) == without_time(second)
    assert first["passed"] is False and first["gate"]["limits"]["agreement"] == 0.95


def test_long_comparisons_are_left_to_the_command(
    logged_in_client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "MOST_DECISIONS", 2)
    page = logged_in_client.get("/shadow")
    assert page.status_code == 200, page.text
    for words in ("more than 2 decisions", "in the last 7 days", "broker shadow --gate gate.yaml"):
        assert words in page.text, words
    assert logged_in_client.get("/shadow", params={"format": "json"}).json() == {"days": 7, "more_than_decisions": 2}


def test_a_verdict_is_cached_for_a_minute_by_criteria(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, judgements = [1000.0], list[str]()
    monkeypatch.setattr(shadow, "judged", lambda api, read: judgements.append(read) or len(judgements))
    api: Any = SimpleNamespace(parts={}, steady_s=lambda: clock[0])
    requests = [("gate", 1000.0), ("gate", 1059.9), ("gate", 1060.0), ("other", 1060.1), ("gate", 1060.2)]
    verdicts = []
    for criteria, clock[0] in requests:
        verdicts.append(shadow.lately_judged(api, criteria))  # type: ignore[arg-type]
    assert verdicts == [1, 1, 2, 3, 4]


def test_comparing_needs_a_login(stranger: httpx.Client) -> None:
    for address in ("/api/v1/shadow", "/api/v1/shadow/gate", "/shadow"):
        assert stranger.get(address).status_code in (401, 403), address

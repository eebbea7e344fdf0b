"""Logging in at an issuer: code flow with PKCE, against a test issuer that checks the verifier."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from broker.api.presenting import to_path
from broker.api.server import ApiServer
from broker.store.connection.database import Database
from broker.web.mounting import page_parts
from broker.web.sessions import COOKIE
from tests.api.issuer import AUDIENCE, Issuer, issuing
from tests.api.serving import client_of, serving, shipped
from tests.web.conftest import BROWSER

ROLES = [{"role": "reader", "scopes": ["broker.read"]}, {"role": "tuner", "groups": ["/atlas/tuners"]}]
KEY = "NQUEUED_SAT_CAP"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as running:
        yield running


@pytest.fixture(scope="module")
def trusting(decided: Database, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    configuration = shipped(
        issuers=[{"issuer": issuer.url, "audiences": [AUDIENCE], "algorithms": ["RS256"], "roles": ROLES}],
        web={"login": {"issuer": issuer.url, "client_id": "page"}},
    )
    home: Path = tmp_path_factory.mktemp("home")
    with serving(decided, home, configuration, parts=page_parts(configuration, None, time.monotonic)) as server:
        yield server


@pytest.fixture
def browser(trusting: ApiServer) -> Iterator[httpx.Client]:
    with client_of(trusting, BROWSER) as client:
        yield client


def token_of(issuer: Issuer, **claims: object) -> str:
    return issuer.sign(issuer.claims(datetime.now(UTC).timestamp(), **claims))


def authorize_address(browser: httpx.Client) -> str:
    answer = browser.get("/login")
    assert answer.status_code == 303
    return answer.headers["location"]


def test_a_login_at_the_issuer_begins_a_session_with_the_roles_of_the_token(
    browser: httpx.Client, issuer: Issuer
) -> None:
    token = token_of(issuer, **{"wlcg.groups": ["/atlas/tuners"]})
    answer = browser.get(issuer.authorize(authorize_address(browser), token))
    assert answer.status_code == 303 and answer.headers["location"] == "/", answer.text
    assert token not in answer.headers["set-cookie"] and COOKIE in browser.cookies
    page = browser.get(f"/tuning/{KEY}").text
    assert "Log out" in page and "ann" in page
    assert f'action="/tuning/{KEY}"' in page and f'action="/tuning/{KEY}/canary"' not in page


def test_mine_leads_to_the_tasks_of_the_logged_in_user(
    browser: httpx.Client, issuer: Issuer, decided: Database
) -> None:
    with decided.begin() as connection:
        user = connection.scalar(sa.text("SELECT min(username) FROM doma_panda.jedi_tasks WHERE username <> ''"))
    browser.get(issuer.authorize(authorize_address(browser), token_of(issuer, preferred_username=user)))
    assert browser.get("/mine").headers["location"] == f"/users/{to_path(user)}"
    assert browser.get(f"/users/{to_path(user)}").status_code == 200
    browser.get(issuer.authorize(authorize_address(browser), token_of(issuer, preferred_username="nobody")))
    assert "nobody has no tasks on record." in browser.get("/mine").text


def test_a_reader_sees_no_forms(browser: httpx.Client, issuer: Issuer) -> None:
    browser.get(issuer.authorize(authorize_address(browser), token_of(issuer)))
    page = browser.get(f"/tuning/{KEY}").text
    assert "Log out" in page and 'action="/tuning/' not in page


def test_a_code_works_once_and_only_in_the_browser_that_began(
    browser: httpx.Client, issuer: Issuer, trusting: ApiServer
) -> None:
    address = issuer.authorize(authorize_address(browser), token_of(issuer))
    with client_of(trusting, BROWSER) as other_browser:
        assert other_browser.get(address).status_code == 400 and COOKIE not in other_browser.cookies
    assert browser.get(address).status_code == 303
    assert browser.get(address).status_code == 400


def test_a_changed_state_or_a_stolen_code_begins_no_session(browser: httpx.Client, issuer: Issuer) -> None:
    address = issuer.authorize(authorize_address(browser), token_of(issuer))
    assert browser.get(address + "x").status_code == 400
    first = issuer.authorize(authorize_address(browser), token_of(issuer))
    stolen = first.replace("code=code-", "code=stolen-")
    assert browser.get(stolen).status_code == 502 and COOKIE not in browser.cookies


def test_a_token_that_the_api_would_refuse_begins_no_session(browser: httpx.Client, issuer: Issuer) -> None:
    bad_token = token_of(issuer, aud="https://elsewhere.example.org")
    answer = browser.get(issuer.authorize(authorize_address(browser), bad_token))
    assert answer.status_code == 401 and COOKIE not in browser.cookies

"""Logging in, the rights of a session, cross-site forms, hostile names, and the policies of routes."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import httpx
import pytest

from broker.api.app import create_app
from broker.api.guarded_route import GuardedRoute
from broker.decisions.pages.tasks import Step, waterfall
from broker.store.connection.database import Database
from broker.web.formats import visible
from broker.web.issuer_login import challenge_of
from broker.web.mounting import page_parts
from broker.web.pictures.bars import element, heat, nice_limit
from broker.web.rendering import PageRoute
from broker.web.sessions import COOKIE, Sessions
from tests.api.serving import BEARER, TOKEN, client_of, serving, shipped, utc_now
from tests.brokerages.small_grid import TASK

KEY = "NQUEUED_SAT_CAP"
HOSTILE = "<script>alert(1)</script>\"'\x1b[31m\u202e"


def csrf_of(page: str) -> str:
    match = re.search(r'name="csrf" value="([^"]+)"', page)
    assert match is not None
    return match[1]


@pytest.fixture
def routes(tmp_path: Path) -> list[object]:
    with Database("postgresql://localhost:1/none") as database:
        app = create_app(
            database,
            shipped(),
            home=tmp_path,
            folder=None,
            now=utc_now,
            steady_s=lambda: 0.0,
            parts=page_parts(shipped(), TOKEN, lambda: 0.0),
        )
        return [route for route in app.routes if isinstance(route, PageRoute)]


def test_every_page_has_a_policy_and_only_forms_change_something(routes: list[object]) -> None:
    assert len(routes) > 25
    for route in routes:
        assert isinstance(route, GuardedRoute)
        if route.path not in ("/login", "/logout"):
            assert route.policy.writes == (route.methods == {"POST"}), route.path
    from_forms = [route.path for route in routes if isinstance(route, GuardedRoute) and route.methods == {"POST"}]
    assert len(from_forms) >= 7


@pytest.mark.slow
def test_the_form_with_the_token_begins_a_session_that_no_script_reads(stranger: httpx.Client) -> None:
    assert '<form method="post" action="/login"' in stranger.get("/login").text
    answer = stranger.post("/login", data={"token": TOKEN})
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 303 and answer.headers["location"] == "/"
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and TOKEN not in cookie
    assert "Log out" in stranger.get("/").text


def test_another_token_begins_no_session(stranger: httpx.Client) -> None:
    answer = stranger.post("/login", data={"token": TOKEN + "x"})
    assert answer.status_code == 401 and COOKIE not in stranger.cookies


def test_a_token_in_an_address_begins_no_session(stranger: httpx.Client) -> None:
    assert stranger.get("/login", params={"token": TOKEN}).status_code != 303 and COOKIE not in stranger.cookies


def test_a_token_sent_by_another_site_begins_no_session(stranger: httpx.Client) -> None:
    for header in ({"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert stranger.post("/login", data={"token": TOKEN}, headers=header).status_code == 403
    assert COOKIE not in stranger.cookies


def test_a_login_link_works_once_and_expires(decided: Database, tmp_path: Path) -> None:
    clock = [0.0]
    parts = page_parts(shipped(), TOKEN, lambda: clock[0])
    assert parts.login_code is not None
    first, late, last = (parts.login_code() for _ in range(3))
    with serving(decided, tmp_path, parts=parts) as server:
        with client_of(server, {}) as browser:
            assert browser.get("/login", params={"code": first}).status_code == 303
            assert browser.get("/api/v1/whoami").json()["roles"]["tuner"]
        with client_of(server, {"Accept": "application/json"}) as browser:
            assert browser.get("/login", params={"code": first}).json()["code"] == "login_code_used"
            assert browser.get("/login", params={"code": first + "x"}).status_code == 401
            clock[0] = 59.9
            assert browser.get("/login", params={"code": late}).status_code == 303
            clock[0] = 60.0
            assert browser.get("/login", params={"code": last}).status_code == 401


def test_there_are_no_login_links_without_a_local_token() -> None:
    assert page_parts(shipped(), None, lambda: 0.0).login_code is None


@pytest.mark.slow
def test_forms_are_hidden_without_their_role(stranger: httpx.Client, logged_in_client: httpx.Client) -> None:
    assert '<form method="post"' not in stranger.get(f"/tuning/{KEY}").text
    assert logged_in_client.get(f"/tuning/{KEY}").text.count('<form method="post" action="/tuning/') == 4


def test_the_page_of_a_user_needs_a_login(stranger: httpx.Client) -> None:
    answer = stranger.get("/users/somebody")
    assert answer.status_code == 401 and "Log in" in answer.text


@pytest.mark.slow
def test_a_value_is_set_by_its_form_and_hostile_text_is_shown_as_text(logged_in_client: httpx.Client) -> None:
    page = logged_in_client.get(f"/tuning/{KEY}").text
    fields = {"csrf": csrf_of(page), "version": "0", "value": "220", "reason": HOSTILE}
    answer = logged_in_client.post(f"/tuning/{KEY}", data=fields)
    assert answer.status_code == 303, answer.text
    after = logged_in_client.get(f"/tuning/{KEY}").text
    assert "220" in after and "<script>alert" not in after and "\x1b" not in after and "\u202e" not in after
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in after and "\\x1b[31m" in after
    assert logged_in_client.get(f"/api/v1/config/{KEY}").json()["value"] == 220
    refusal = logged_in_client.post(f"/tuning/{KEY}", data={**fields, "value": "-5", "version": "0"})
    assert refusal.status_code >= 400 and "<h1>" in refusal.text


@pytest.mark.parametrize(
    ("form", "fields", "status", "message"),
    [
        ("", {"value": "-5", "reason": "links are <b>slow</b>"}, 409, "-5 is out of range"),
        ("", {"value": "5", "reason": " "}, 422, "a change needs a reason"),
        ("/try", {"value": "many"}, 409, "many"),
        ("/sweep", {"from": "1", "to": "5", "step": "2", "hours": "99"}, 422, "the hours must be above 0"),
        ("/canary", {"value": "5", "percent": "120", "hours": "7", "reason": "try it"}, 422, "the share must be"),
    ],
)
def test_a_refused_form_keeps_its_input(
    logged_in_client: httpx.Client, form: str, fields: dict[str, str], status: int, message: str
) -> None:
    csrf = csrf_of(logged_in_client.get(f"/tuning/{KEY}").text)
    answer = logged_in_client.post(f"/tuning/{KEY}{form}", data={**fields, "csrf": csrf, "version": "0"})
    assert answer.status_code == status
    (form_html,) = (part for part in answer.text.split("<form") if f'action="/tuning/{KEY}{form}"' in part)
    assert 'role="alert"' in form_html and message in form_html and answer.text.count('role="alert"') == 1
    for name, value in fields.items():
        assert f'name="{name}" value="{escape(value)}"' in form_html
    assert "<h3>Set</h3>" in answer.text and "<b>slow" not in answer.text
    problem = logged_in_client.post(
        f"/tuning/{KEY}{form}",
        data={**fields, "csrf": csrf, "version": "0"},
        headers={"Accept": "application/json"},
    )
    assert problem.status_code == status and problem.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("address", [f"/tuning/{KEY}", f"/tuning/{KEY}/try", "/tuning:rollback", "/replays", "/logout"])
@pytest.mark.parametrize("csrf", ["", "x" * 43, None])
def test_a_form_without_the_token_of_its_session_changes_nothing(
    logged_in_client: httpx.Client, address: str, csrf: str | None
) -> None:
    fields = {"value": "1", "version": "1", "reason": "x", **({} if csrf is None else {"csrf": csrf})}
    assert logged_in_client.post(address, data=fields).status_code == 403


def test_a_form_from_another_site_is_unauthenticated(logged_in_client: httpx.Client) -> None:
    fields = {"csrf": csrf_of(logged_in_client.get(f"/tuning/{KEY}").text), "value": "1", "version": "0", "reason": "x"}
    for header in ({"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert logged_in_client.post(f"/tuning/{KEY}", data=fields, headers=header).status_code == 401


def test_a_form_needs_the_origin_of_its_page(logged_in_client: httpx.Client) -> None:
    page = logged_in_client.get(f"/tuning/{KEY}")
    assert page.headers["referrer-policy"] == "same-origin"
    fields = {"csrf": csrf_of(page.text), "value": "-1", "version": "0", "reason": "x"}
    assert logged_in_client.post(f"/tuning/{KEY}", data=fields, headers={"Origin": "null"}).status_code == 401
    same_origin = {"Origin": str(logged_in_client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    assert logged_in_client.post(f"/tuning/{KEY}", data=fields, headers=same_origin).status_code == 409


def test_a_cookie_alone_writes_nothing_through_the_api(logged_in_client: httpx.Client) -> None:
    body = {"value": 1, "reason": "x"}
    assert logged_in_client.get("/api/v1/whoami").status_code == 200
    assert logged_in_client.put(f"/api/v1/config/{KEY}", json=body).status_code == 401
    assert logged_in_client.post(f"/tuning/{KEY}", data={"value": "1"}, headers=BEARER).status_code == 403


def test_logging_out_ends_the_session(logged_in_client: httpx.Client) -> None:
    key = logged_in_client.cookies[COOKIE]
    assert logged_in_client.post("/logout", data={"csrf": csrf_of(logged_in_client.get("/").text)}).status_code == 303
    logged_in_client.cookies.set(COOKIE, key)
    assert logged_in_client.get("/api/v1/whoami").status_code == 401


def test_a_session_ends_after_its_time() -> None:
    clock = [0.0]
    sessions = Sessions(lambda: clock[0], 10.0)
    key = sessions.begin(object())  # type: ignore[arg-type]
    clock[0] = 9.9
    assert sessions.find(key) is not None
    clock[0] = 10.0
    assert sessions.find(key) is None and sessions.find("") is None and sessions.find(None) is None


def test_the_pkce_challenge_follows_the_standard() -> None:
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_a_hostile_name_is_text_in_a_picture() -> None:
    picture = str(waterfall(3, [Step(HOSTILE, 2, 1)], 1))
    assert "<script>" not in picture and "\x1b" not in picture
    assert str(element("text", HOSTILE)).startswith("<text>&lt;script&gt;")
    assert visible("a\x1bb\tc\n") == "a\\x1bb\tc\n"


@pytest.mark.parametrize(("largest", "limit"), [(0, 1), (1, 1), (1.1, 2), (5, 5), (51, 100), (0.3, 0.5)])
def test_an_axis_ends_at_a_round_figure(largest: float, limit: float) -> None:
    assert nice_limit(largest) == pytest.approx(limit)


def test_shades_range_from_zero_to_the_largest_value() -> None:
    assert [heat(value, 100) for value in (0, 1, 100)] == ["heat-0", "heat-1", "heat-5"]


def test_a_task_page_shows_why_and_what_happened(logged_in_client: httpx.Client) -> None:
    page = logged_in_client.get(f"/tasks/{TASK + 2}", params={"evaluate": "true"}).text
    assert "What would help" in page and "<svg" in page and "why-not" in page and "History" in page


@pytest.mark.parametrize("address", [f"/tasks/{TASK + 2}", "/queues/ALPHA_MCORE"])
def test_evaluating_is_offered_only_with_a_login(
    logged_in_client: httpx.Client, stranger: httpx.Client, address: str
) -> None:
    assert "?evaluate=true" in logged_in_client.get(address).text
    page = stranger.get(address)
    assert page.status_code == 200 and "evaluate" not in page.text
    assert stranger.get(address, params={"evaluate": "true"}).status_code == 401

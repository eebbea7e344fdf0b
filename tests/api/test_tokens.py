"""Tokens of an issuer: valid ones give the mapped roles, forged ones are all refused with the same message."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import sqlalchemy as sa

from broker.api.configuration import ApiConfiguration
from broker.api.server import ApiServer
from broker.store.connection.database import Database
from tests.api.issuer import AUDIENCE, Issuer, issuing
from tests.api.serving import client_of, serving, shipped

ROLES = [
    {"role": "reader", "scopes": ["broker.read"]},
    {"role": "pilot", "scopes": ["broker.match"]},
    {"role": "tuner", "groups": ["/atlas/tuners"]},
    {"role": "operator", "subjects": ["boss"], "groups": ["/atlas/production"]},
]
REASON = {"value": 60, "reason": "try"}
KEY = "/api/v1/config/NQUEUED_SAT_CAP"


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.moment = datetime.now(UTC)
        self._count = 0

    def __call__(self) -> datetime:
        return self.moment

    @property
    def s(self) -> float:
        self._count += 1
        return self.moment.timestamp() + self._count / 1e6  # gives each token its own identifier


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as running:
        yield running


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


def trusted(issuer: Issuer, **changes: Any) -> dict[str, Any]:
    return {"issuer": issuer.url, "audiences": [AUDIENCE], "algorithms": ["RS256"], "roles": ROLES, **changes}


@pytest.fixture(scope="module")
def server(shared_database: Database, issuer: Issuer, clock: Clock, tmp_path_factory: Any) -> Iterator[ApiServer]:
    home: Path = tmp_path_factory.mktemp("home")
    with serving(shared_database, home, shipped(issuers=[trusted(issuer)]), now=clock) as api:
        yield api


@pytest.fixture(scope="module")
def client(server: ApiServer) -> Iterator[httpx.Client]:
    with client_of(server, {}) as http_client:
        yield http_client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def whoami(client: httpx.Client, token: str) -> httpx.Response:
    return client.get("/api/v1/whoami", headers=bearer(token))


def test_a_valid_token_gives_the_mapped_roles(client: httpx.Client, issuer: Issuer, clock: Clock) -> None:
    claims = issuer.claims(clock.s, **{"scope": "broker.read broker.match:/BNL", "wlcg.groups": ["/atlas/tuners"]})
    identity = whoami(client, issuer.sign(claims)).json()
    assert identity["subject"] == "ann" and identity["issuer"] == issuer.url
    assert identity["roles"] == {"reader": ["/"], "pilot": ["/BNL"], "tuner": ["/"]}


FAULTY_TOKENS: dict[str, tuple[str, Callable[[Issuer, float], str]]] = {
    "expired": ("token_expired", lambda one, s: one.sign(one.claims(s, exp=int(s)))),
    "expired by a second": ("token_expired", lambda one, s: one.sign(one.claims(s, exp=int(s) - 1))),
    "without an end": ("token_incomplete", lambda one, s: one.sign(one.claims(s, exp=None))),
    "end is a text": ("token_incomplete", lambda one, s: one.sign(one.claims(s, exp="tomorrow"))),
    "lives for a week": ("token_lives_too_long", lambda one, s: one.sign(one.claims(s, exp=int(s) + 7 * 86400))),
    "not yet valid": ("token_not_yet_valid", lambda one, s: one.sign(one.claims(s, nbf=int(s) + 120))),
    "issued in the future": ("token_not_yet_valid", lambda one, s: one.sign(one.claims(s, iat=int(s) + 120))),
    "wrong audience": ("token_wrong_audience", lambda one, s: one.sign(one.claims(s, aud="https://other.example.org"))),
    "no audience": ("token_wrong_audience", lambda one, s: one.sign(one.claims(s, aud=None))),
    "audience for anybody": (
        "token_wrong_audience",
        lambda one, s: one.sign(one.claims(s, aud="https://wlcg.cern.ch/jwt/v1/any")),
    ),
    "no subject": ("token_incomplete", lambda one, s: one.sign(one.claims(s, sub=None))),
    "subject with a line end": ("token_incomplete", lambda one, s: one.sign(one.claims(s, sub="ann\nroot"))),
    "no identifier": ("token_incomplete", lambda one, s: one.sign(one.claims(s, jti=None))),
}
"""Faulty tokens signed by the issuer, and the code their holder gets."""


BAD_TOKENS: dict[str, Callable[[Issuer, float], str]] = {
    "wrong issuer": lambda one, s: one.sign(one.claims(s, iss="https://evil.example.org")),
    "issuer with a slash more": lambda one, s: one.sign(one.claims(s, iss=one.url + "/")),
    "alg none": lambda one, s: one.unsigned(one.claims(s)),
    "HMAC with the public key": lambda one, s: one.sign_with_public_key(one.claims(s)),
    "another algorithm": lambda one, s: one.sign(one.claims(s), header={"alg": "RS512"}),
    "unknown key": lambda one, s: one.sign(one.claims(s), header={"kid": "nobody"}),
    "key id is a path": lambda one, s: one.sign(one.claims(s), header={"kid": "../../etc/passwd"}),
    "key id is an address": lambda one, s: one.sign(one.claims(s), header={"kid": f"{one.url}/stolen"}),
    "header names a key address": lambda one, s: one.sign(one.claims(s), header={"jku": f"{one.url}/stolen"}),
    "oversized": lambda one, s: one.sign(one.claims(s, padding="x" * 20_000)),
    "changed claims": lambda one, s: _changed(one, s),
    "cut short": lambda one, s: one.sign(one.claims(s))[:-8],
    "no token": lambda one, s: "a.b.c",
    "two parts": lambda one, s: "a.b",
}


def _changed(issuer: Issuer, seconds: float) -> str:
    header, _, signature = issuer.sign(issuer.claims(seconds)).split(".")
    _, claims, _ = issuer.sign(issuer.claims(seconds, sub="boss")).split(".")
    return f"{header}.{claims}.{signature}"


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_a_bad_token_is_refused_without_detail(client: httpx.Client, issuer: Issuer, clock: Clock, name: str) -> None:
    answer = whoami(client, BAD_TOKENS[name](issuer, clock.s))
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.json()["detail"] == "a valid token is needed"
    assert "/stolen" not in issuer.asked and not any("etc" in path for path in issuer.asked)


@pytest.mark.parametrize("name", FAULTY_TOKENS)
def test_the_fault_of_a_properly_signed_token_is_explained(
    client: httpx.Client, issuer: Issuer, clock: Clock, name: str
) -> None:
    code, sign = FAULTY_TOKENS[name]
    token = sign(issuer, clock.s)
    answer = whoami(client, token)
    assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert answer.json()["remedy"] and 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert (AUDIENCE in answer.json()["remedy"]) == (code == "token_wrong_audience")
    header, claims, signature = token.split(".")
    forged = whoami(client, f"{header}.{claims}.{signature[:-8]}AAAAAAAA")
    assert (forged.json()["code"], forged.json()["remedy"]) == ("unauthenticated", None)


def test_a_missing_role_is_refused_without_detail(client: httpx.Client, issuer: Issuer, clock: Clock) -> None:
    reader = bearer(issuer.sign(issuer.claims(clock.s)))
    answer = client.put(KEY, json=REASON, headers=reader)
    assert (answer.status_code, answer.json()["detail"]) == (403, "this needs another role")
    no_role = bearer(issuer.sign(issuer.claims(clock.s, scope="storage.read:/")))
    assert client.get("/api/v1/config", headers=no_role).status_code == 403


@pytest.mark.parametrize(
    ("scope", "queue", "allowed"),
    [
        ("broker.match:/BNL", "BNL", True),
        ("broker.match:/BNL", "BNL_TEST", False),
        ("broker.match:/BNL_TEST", "BNL", False),
        ("broker.match:/", "BNL", True),
        ("broker.match", "BNL", True),
        ("broker.match:/../BNL", "BNL", False),
        ("broker.match:BNL", "BNL", False),
        ("broker.matcher:/BNL", "BNL", False),
        ("broker.match.all", "BNL", False),
    ],
)
def test_the_path_of_a_scope_is_not_a_prefix(
    client: httpx.Client, issuer: Issuer, clock: Clock, scope: str, queue: str, allowed: bool
) -> None:
    pilot = bearer(issuer.sign(issuer.claims(clock.s, scope=scope)))
    answer = client.post("/api/v1/jobs:match", json={"site": "A", "ce": "B", "queue": queue}, headers=pilot)
    assert answer.status_code == (200 if allowed else 403), answer.text


def test_a_token_is_good_for_one_write(
    client: httpx.Client, issuer: Issuer, clock: Clock, shared_database: Database
) -> None:
    tuner = bearer(issuer.sign(issuer.claims(clock.s, sub="tina", **{"wlcg.groups": ["/atlas/tuners"]})))
    with_key = {**tuner, "Idempotency-Key": "once"}
    first = client.put(KEY, json=REASON, headers=with_key)
    assert first.status_code == 200, first.text
    retry = client.put(KEY, json=REASON, headers=with_key)
    assert (retry.status_code, retry.json()) == (200, first.json())
    replay = client.put(KEY, json={**REASON, "value": 61}, headers=tuner)
    assert (replay.status_code, replay.json()["code"]) == (401, "token_used")
    assert "reusable" in replay.json()["remedy"]
    with shared_database.begin() as connection:
        editors = connection.execute(
            sa.text("SELECT editor FROM broker.gdpconfig_versions ORDER BY version DESC LIMIT 1")
        )
        assert editors.scalar_one() == f"tina ({issuer.url})"
    assert whoami(client, tuner["Authorization"].removeprefix("Bearer ")).status_code == 200


def test_concurrent_requests_fetch_the_keys_once(shared_database: Database, clock: Clock, tmp_path: Path) -> None:
    with (
        issuing() as issuer,
        serving(shared_database, tmp_path, shipped(issuers=[trusted(issuer)]), now=clock) as server,
    ):
        token = issuer.sign(issuer.claims(clock.s))
        with client_of(server, {}) as client:
            statuses: list[int] = []
            threads = [
                threading.Thread(target=lambda: statuses.append(whoami(client, token).status_code)) for _ in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            unknown_key = issuer.sign(issuer.claims(clock.s), header={"kid": "x"})
            assert [whoami(client, unknown_key).status_code for _ in range(3)] == [401] * 3
        assert statuses == [200] * 8 and issuer.fetches == 1


def test_a_cached_token_is_refused_from_its_expiry_on(shared_database: Database, tmp_path: Path) -> None:
    clock = Clock()
    with (
        issuing() as issuer,
        serving(shared_database, tmp_path, shipped(issuers=[trusted(issuer)]), now=clock) as server,
        client_of(server, {}) as client,
    ):
        expires_at = clock.moment.replace(microsecond=0) + timedelta(hours=1)
        token = issuer.sign(issuer.claims(clock.s, exp=int(expires_at.timestamp())))
        statuses = []
        for moment in (clock.moment, expires_at - timedelta(seconds=1), expires_at):
            clock.moment = moment
            statuses.append(whoami(client, token).status_code)
        assert statuses == [200, 200, 401]
        assert issuer.fetches == 1  # the keys were not read again: only the expiry made the difference


@pytest.mark.parametrize(
    ("keys_at", "stated", "status"),
    [
        ("http://127.0.0.1:{port}", False, 200),
        ("http://localhost:{port}", False, 401),
        ("http://127.0.0.1:{other_port}", False, 401),
        ("https://127.0.0.1:{port}", False, 401),
        ("http://127.0.0.1:{port}.evil.example.org", False, 401),
        ("//127.0.0.1:{port}", False, 401),
        # with a configured address the issuer is not asked
        ("http://127.0.0.1:{other_port}", True, 200),
    ],
)
def test_keys_come_from_the_host_of_the_issuer_unless_the_configuration_states_another(
    shared_database: Database,
    clock: Clock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    keys_at: str,
    stated: bool,
    status: int,
) -> None:
    with issuing() as issuer, issuing() as other_issuer:
        other_issuer.keys = issuer.keys  # only the address is wrong
        port, other_port = (urlsplit(each.url).port for each in (issuer, other_issuer))
        issuer.keys_at = keys_at.format(port=port, other_port=other_port)
        changes = {"jwks_uri": f"{issuer.keys_at}/jwks"} if stated else {}
        configuration = shipped(issuers=[trusted(issuer, **changes)])
        with serving(shared_database, tmp_path, configuration, now=clock) as server, client_of(server, {}) as client:
            assert whoami(client, issuer.sign(issuer.claims(clock.s))).status_code == status
        assert issuer.fetches + other_issuer.fetches == (1 if status == 200 else 0)
    refusals = [
        record for record in caplog.records if "not at the host of the issuer" in str(vars(record).get("fields"))
    ]
    assert bool(refusals) == (status == 401)


@contextlib.contextmanager
def new_process(
    database: Database, home: Path, configuration: ApiConfiguration, clock: Clock, steady: list[float]
) -> Iterator[httpx.Client]:
    """A client of a newly started process."""
    with (
        serving(database, home, configuration, now=clock, steady_s=lambda: steady[0]) as server,
        client_of(server, {}) as client,
    ):
        yield client


def test_a_revoked_key_and_an_issuer_that_is_down(shared_database: Database, tmp_path: Path) -> None:
    clock, steady = Clock(), [0.0]
    with issuing() as issuer:
        issuer.add_key("two")
        configuration = shipped(issuers=[trusted(issuer, longest_life_s=10 * 86400.0)])
        long = {"exp": int(clock.s) + 5 * 86400}
        first, second = (issuer.sign(issuer.claims(clock.s, **long), key=name) for name in ("one", "two"))
        with new_process(shared_database, tmp_path, configuration, clock, steady) as client:
            assert [whoami(client, token).status_code for token in (first, second)] == [200, 200]
            del issuer.keys["two"]
            clock.moment += timedelta(hours=7)
            steady[0] += 7 * 3600
            assert [whoami(client, token).status_code for token in (first, second)] == [200, 401]
            issuer.down = True
            clock.moment += timedelta(hours=47)
            steady[0] += 47 * 3600
            assert whoami(client, first).status_code == 200
        # a process that starts while the issuer is down finds the keys stored by another process
        with new_process(shared_database, tmp_path, configuration, clock, steady) as client:
            assert whoami(client, first).status_code == 200
            clock.moment += timedelta(hours=2)
            steady[0] += 2 * 3600
            assert whoami(client, first).status_code == 401

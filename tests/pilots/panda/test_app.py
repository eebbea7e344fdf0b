from __future__ import annotations

import pytest
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from broker.access import policies
from broker.access.policies import Grant, Role
from broker.pilots.routes.panda.access import Identity, TooManyRequests, of_token
from broker.pilots.routes.panda.app import beside, is_for_pilots, pilot_app
from broker.store.connection.database import Database
from tests.pilots.panda.client import Client
from tests.pilots.panda.pilot_grid import AGENT, fill, job, post

IDENTITIES = {
    "pilot": Identity("p"),
    "pilot of Q": Identity("p", paths=("/Q",)),
    "user": Identity("ann", has_role=False),
}


@pytest.fixture(scope="module")
def restricted_client(shared_database: Database) -> Client:
    async def identify(connection: HTTPConnection) -> Identity | None:
        return IDENTITIES.get(connection.headers.get("authorization", ""))

    return Client(pilot_app(shared_database, identify))


def status_code_of(client: Client, identity: str, method: str, **fields: str) -> int:
    headers = {**AGENT, "authorization": identity}
    answer = client.post(f"/server/panda/{method}", data=fields, headers=headers)
    assert answer.status_code == 200
    return int(answer.json()["StatusCode"])


def test_a_request_without_a_token_is_refused(restricted_client: Client) -> None:
    for method in ("getJob", "updateJob", "updateWorkerPilotStatus"):
        assert status_code_of(restricted_client, "nobody", method, siteName="Q") == 70
    answer = restricted_client.post("/api/v1/pilot/update_job", json={})
    assert (answer.status_code, answer.text) == (403, "SSL secure connection is required")


@pytest.mark.parametrize(
    ("identity", "fields", "code"),
    [
        ("pilot", {"siteName": "Q"}, 0),
        ("pilot of Q", {"siteName": "Q"}, 0),
        ("pilot of Q", {"siteName": "R"}, 70),
        ("pilot of Q", {"siteName": "QQ"}, 70),
        ("user", {"siteName": "Q"}, 60),
        ("user", {"siteName": "Q", "prodSourceLabel": "user"}, 0),
        ("user", {"siteName": "Q", "prodSourceLabel": "user", "prodUserID": "bob"}, 0),
    ],
)
def test_which_identities_may_take_jobs(
    shared_database: Database, restricted_client: Client, identity: str, fields: dict[str, str], code: int
) -> None:
    label = "user" if identity == "user" else "managed"
    fill(
        shared_database,
        [job(5, prodsourcelabel=label, produserid="ann"), job(6, prodsourcelabel="user", produserid="bob")],
    )
    assert status_code_of(restricted_client, identity, "getJob", **fields) == code
    if identity == "user" and code == 0:
        assert status_code_of(restricted_client, identity, "getJob", **fields) == 20


@pytest.mark.parametrize(("identity", "code"), [("pilot", 0), ("pilot of Q", 70), ("user", 60)])
def test_which_identities_may_report(
    shared_database: Database, restricted_client: Client, identity: str, code: int
) -> None:
    fill(shared_database, [job(5, "running", computingsite="R")])
    assert status_code_of(restricted_client, identity, "updateJob", jobId="5", state="running", siteName="Q") == code


def test_the_newer_methods_refuse_an_identity_without_the_role(restricted_client: Client) -> None:
    answer = restricted_client.post("/api/v1/harvester/update_workers", json={"harvester_id": "h", "workers": []},
                          headers={"authorization": "user"})  # fmt: skip
    assert (answer.status_code, answer.json()["success"]) == (200, False)


@pytest.mark.parametrize(
    ("grants", "expected"),
    [
        ({Role.PILOT: Grant(Role.PILOT, ("/Q",))}, Identity("ann", True, ("/Q",))),
        ({Role.SUBMITTER: Grant(Role.SUBMITTER)}, Identity("ann", has_role=False)),
        ({Role.READER: Grant(Role.READER)}, None),
        ({}, None),
    ],
)
def test_a_token_is_a_pilot_a_user_or_no_identity(grants: dict[Role, Grant], expected: Identity | None) -> None:
    assert of_token(policies.Identity("sub", "iss", grants, username="ann")) == expected


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/server/panda/killJob"), ("GET", "/server/panda/getJob"), ("POST", "/api/v1/pilot/nothing"),
     ("GET", "/api/v1/harvester/heartbeat"), ("POST", "/server/panda/../../etc/passwd")],
)  # fmt: skip
def test_other_methods_are_forbidden(client: Client, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code in (403, 404)
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/server/panda/getJob", True),
        ("/api/v1/pilot/update_job", True),
        ("/api/v1/harvester/heartbeat", True),
        ("/cache/schedconfig/Q.json", True),
        ("/api/v1/pilots", False),
        ("/api/v1/tasks", False),
        ("/", False),
    ],
)
def test_two_applications_on_one_port(shared_database: Database, path: str, expected: bool) -> None:
    async def other_app(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("other", 418)(scope, receive, send)

    assert is_for_pilots(path) == expected
    answer = Client(beside(other_app, pilot_app(shared_database))).get(path)
    assert (answer.status_code != 418) == expected


def test_the_pilot_interface_has_its_own_schema(client: Client) -> None:
    schema = client.get("/api/v1/pilot/openapi.json").json()
    assert {"/server/panda/getJob", "/api/v1/pilot/update_job", "/api/v1/harvester/heartbeat"} <= set(schema["paths"])
    body = schema["paths"]["/api/v1/pilot/update_job"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["job_id", "job_status"]
    assert body["properties"]["job_id"] == {"type": "integer"}


def test_without_a_database_pilots_are_asked_to_retry() -> None:
    with Database("postgresql://nobody@127.0.0.1:1/none") as nowhere:
        client = Client(pilot_app(nowhere))
        assert post(client, "getJob", siteName="Q") == {"StatusCode": 30, "errorDialog": "database error"}
        answer = client.post("/server/panda/updateJob", data={"jobId": "5", "state": "finished"}, headers=AGENT)
        assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (503, "text/plain")
        document = client.post("/api/v1/pilot/update_job", json={"job_id": 5, "job_status": "running"}).json()
        assert document == {"success": True, "message": "Database error", "data": {"StatusCode": 30}}
        document = client.post("/api/v1/harvester/heartbeat", json={"harvester_id": "h"}).json()
        assert document == {"success": False, "message": "Database error", "data": None}
        assert client.get("/cache/schedconfig/Q.json").status_code == 503


async def identify_with_rate_limit(connection: HTTPConnection) -> Identity | None:
    raise TooManyRequests(1.5)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/server/panda/getJob"),
        ("POST", "/api/v1/pilot/update_job"),
        ("GET", "/cache/schedconfig/Q.json"),
        ("GET", "/cache/ddmendpoints.json"),
    ],
)
def test_a_client_over_its_rate_limit_is_told_when_to_retry(shared_database: Database, method: str, path: str) -> None:
    answer = Client(pilot_app(shared_database, identify_with_rate_limit)).request(method, path)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert "{" not in answer.text, "pilots take any JSON for success"

"""Archives of panda-client: size, owner, name and lifetime; the transformation script; the login configuration."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest
import sqlalchemy as sa

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from broker.tasks.answers.sandboxes import find_sandbox, keep_sandbox, read_sandbox
from broker.tasks.model.sandboxes import checksum_of
from tests.api.issuer import Issuer
from tests.pilots.panda.pilot_grid import run_agent
from tests.tasks.client.calls import Caller, sandbox_name
from tests.tasks.client.conftest import LIMITS, archive

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
UUID = "0a1b2c3d-0000-4000-8000-000000000000"
MOST = LIMITS["sandbox_bytes"]


@pytest.fixture(autouse=True)
def empty_sandboxes(shared_database: Database) -> None:
    with shared_database.begin() as connection:
        connection.execute(sa.text("TRUNCATE broker.sandboxes"))


def test_an_archive_is_found_again_by_its_owner(server: ApiServer, ada: Caller, bob: Caller) -> None:
    name, content = sandbox_name(), archive()
    query = {"file_size": len(content), "checksum": checksum_of(content)}
    assert ada.upload(f"/home/ada/{name}", content)["success"], "a path in front is no part of the name"
    host = httpx.URL(server.url).host
    assert ada.post("file_server/validate_cache_file", **query)["message"] == f"FOUND:{host}:{name}"
    assert bob.post("file_server/validate_cache_file", **query)["message"] == "NOTFOUND"
    for changed in ({"file_size": len(content) + 1}, {"checksum": query["checksum"] ^ 1}):
        assert ada.post("file_server/validate_cache_file", **{**query, **changed})["message"] == "NOTFOUND"


def test_jobs_fetch_an_archive_by_its_name_without_a_token(server: ApiServer, ada: Caller) -> None:
    name, content = sandbox_name(), archive()
    ada.upload(name, content)
    with httpx.Client(base_url=server.url) as job:
        fetched = job.get(f"/cache/{name}")
        assert (fetched.status_code, fetched.content) == (200, content)
        assert fetched.headers["content-type"] == "application/gzip"
        assert job.get(f"/cache/{sandbox_name()}").status_code == 404
        for bad_name in ("..%2f..%2fetc%2fpasswd", "a b", "x" * 200):
            assert job.get(f"/cache/{bad_name}").status_code in (400, 404, 422), bad_name


def test_nothing_is_overwritten(shared_database: Database, ada: Caller, bob: Caller) -> None:
    name, content = sandbox_name(), archive()
    ada.upload(name, content)
    assert ada.upload(name, content)["success"], "the same upload again changes nothing"
    for caller, other_content in ((bob, content), (bob, archive(b"x")), (ada, archive(b"x"))):
        answer = caller.upload(name, other_content)
        assert answer["success"] is False and f"cannot overwrite file {name}" in answer["message"]
    assert read_sandbox(shared_database, name, NOW) == content


@pytest.mark.parametrize(("size", "is_kept"), [(MOST, True), (MOST + 1, False)])
def test_an_archive_larger_than_the_limit_is_refused(ada: Caller, size: int, is_kept: bool) -> None:
    answer = ada.upload(sandbox_name(), archive(size=size))
    assert answer["success"] is is_kept
    assert is_kept or f"has {size} bytes, and {MOST} are allowed" in answer["message"]


def test_a_body_that_is_far_too_large_is_not_read(ada: Caller) -> None:
    response = ada.client.post(
        "/api/v1/file_server/upload_cache_file", files={"file": (f"jobO.{UUID}.tar.gz", b"x" * 10_000)}
    )
    assert response.status_code == 413


def test_archives_of_a_user_have_a_total_size_limit(ada: Caller, bob: Caller) -> None:
    first = MOST - 200
    left = LIMITS["sandboxes_of_user_bytes"] - first
    assert ada.upload(sandbox_name(), archive(size=first))["success"]
    answer = ada.upload(sandbox_name(), archive(size=left + 1))
    assert answer["success"] is False and f"have {first} bytes" in answer["message"]
    assert bob.upload(sandbox_name(), archive(size=left + 1))["success"], "somebody else's count for themselves"
    assert ada.upload(sandbox_name(), archive(size=left))["success"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (f"sources.{UUID}.tar.gz", archive(), "buildSpec"),
        ("jobO.tar.gz", archive(), "no name of an archive"),
        ("jobO.123.tar.gz", archive(), "no name of an archive"),
        (f"jobO.{UUID}.tar.gz.exe", archive(), "no name of an archive"),
        (f"jobO.{UUID}.tar.gz", b"plain text, and not short", "no gzip archive"),
        (f"jobO.{UUID}.tar.gz", b"\x1f\x8b", "no gzip archive"),
        (f"jobO.{UUID}.tar.gz", b"", "no gzip archive"),
    ],
)
def test_an_invalid_archive_is_refused(ada: Caller, name: str, content: bytes, message: str) -> None:
    answer = ada.upload(name, content)
    assert answer["success"] is False and message in answer["message"]


def test_a_form_without_a_file_gets_an_error_answer(ada: Caller) -> None:
    for form in ({"data": {"file": "text"}}, {"files": {"other": ("a", b"b")}}, {"json": {"file": 1}}):
        answer = ada.answer_of(ada.client.post("/api/v1/file_server/upload_cache_file", **form))
        assert answer["success"] is False and answer["message"]


@pytest.mark.parametrize(("size", "checksum"), [(None, None), ("1", 1), (-1, 1), (1, -1), (1, 2**32), (True, 1)])
def test_an_invalid_query_about_an_archive_gets_an_error_answer(ada: Caller, size: object, checksum: object) -> None:
    answer = ada.post("file_server/validate_cache_file", file_size=size, checksum=checksum)
    assert answer["success"] is False and answer["data"] == 101


def test_an_archive_is_offered_again_for_three_days_after_its_last_use(shared_database: Database) -> None:
    name, content = sandbox_name(), archive()
    keep_sandbox(shared_database, "ada", name, content, MOST, 10**6, NOW)

    def find_after(days: float) -> str | None:
        return find_sandbox(shared_database, "ada", len(content), checksum_of(content), NOW + timedelta(days=days))

    assert (find_after(2.9), find_after(5.8), find_after(9)) == (name, name, None)


@pytest.mark.slow
def test_cleanup_removes_archives_unused_for_a_month(shared_database: Database) -> None:
    unused, used = sandbox_name(), sandbox_name()
    for name in (unused, used):
        keep_sandbox(shared_database, "ada", name, archive(name.encode()), MOST, 10**6, NOW)
    read_sandbox(shared_database, used, NOW + timedelta(days=2))
    record, _ = run_agent(shared_database, "cleanup", NOW + timedelta(days=30))
    assert record.counts["sandboxes"] == 0, record
    record, _ = run_agent(shared_database, "cleanup", NOW + timedelta(days=30, seconds=1))
    assert record.counts["sandboxes"] == 1
    assert read_sandbox(shared_database, used, NOW)
    with pytest.raises(Exception, match="there is no file"):
        read_sandbox(shared_database, unused, NOW)


def test_the_transformation_is_served_without_a_token(server: ApiServer) -> None:
    with httpx.Client(base_url=server.url) as job:
        script = job.get("/trf/user/runGen")
        assert script.status_code == 200 and script.text.startswith("#!/usr/bin/env python3\n")
        compile(script.text, "runGen", "exec")
        assert job.get("/trf/user/other").status_code == 404


def test_the_login_configuration_is_served_as_configured(server: ApiServer, issuer: Issuer) -> None:
    with httpx.Client(base_url=server.url) as client:
        answer = client.get("/auth/myexp_auth_config.json").json()
        assert answer["oidc_config_url"] == f"{issuer.url}/.well-known/openid-configuration"
        assert (answer["client_id"], answer["client_secret"], answer["vo"]) == ("panda-client", "", "myexp")
        assert client.get("/auth/other.json").status_code == 404

"""Ending jobs through PanDA's API, alongside PanDA."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.alongside.panda_api import PandaApi, PandaRefuses, PandaServer
from agents.lifecycle.ending_options import EndingOptions
from broker.errors import Refused
from broker.fetching.documents import FetchTerms, Surroundings
from broker.lifecycle.model.panda_requests import KillRequest
from broker.store.connection.database import Database
from tests.agents.alongside.playing_panda import KILLS, WHO, PlayedPanda, played_panda, says_no, says_yes
from tests.agents.moving_jobs import column, config, fill, job, run
from tests.fetching.web_server import DRIPPING, serving

LONG_AGO = {"creationtime": "2026-07-01T00:00:00", "modificationtime": "2026-07-01T00:00:00"}
#: After too long in its state, a waiting job is taken back, a throttled one expires, a running one is killed, a sent
#: one fails.
JOBS = [
    job(1, "assigned", prodsourcelabel="managed", **LONG_AGO),
    job(2, "throttled", prodsourcelabel="managed", **LONG_AGO),
    job(3, "running", prodsourcelabel="managed", starttime="2026-07-01T00:00:00", creationtime="2026-07-01T00:00:00",
        modificationtime="2026-08-01T11:59:00"),
    job(4, "sent", prodsourcelabel="managed", **LONG_AGO),
    job(5, "assigned", prodsourcelabel="managed", **LONG_AGO),
]  # fmt: skip
LIVE = "SELECT pandaid FROM doma_panda.jobsdefined4 UNION ALL SELECT pandaid FROM doma_panda.jobsactive4 ORDER BY 1"
ACTIONS = (
    "SELECT concat_ws(' ', pandaid, action, code, new_status, detail ->> 'through') FROM broker.job_actions ORDER BY id"
)


@pytest.fixture
def panda() -> Iterator[PlayedPanda]:
    with played_panda() as server:
        yield server


def load_due_jobs(database: Database) -> None:
    tables: dict[str, list[dict[str, Any]]] = {
        "jedi_datasets": [{"jeditaskid": 1, "datasetid": 10, "type": "input"}],
        "filestable4": [{"row_id": 1, "pandaid": 1, "jeditaskid": 1, "datasetid": 10, "fileid": 1, "type": "input"}],
    }
    fill(database, JOBS, **tables)


@pytest.mark.slow
def test_panda_is_asked_and_its_tables_are_left_alone(
    shared_database: Database, panda: PlayedPanda, tmp_path: Path
) -> None:
    load_due_jobs(shared_database)
    token = tmp_path / "token"
    token.write_text("secret\n", encoding="ascii")
    record, objects = run(
        shared_database, "timeouts", options=panda.options(bearer_token_file=str(token), origin="atlas:production")
    )
    assert (record.outcome, record.error) == ("done", None)
    assert panda.bodies == [
        {"job_ids": [1, 5], "code": 51, "kill_options": ["keepUnmerged"]},
        {"job_ids": [2, 3], "code": 2, "kill_options": []},
    ]
    path, _, headers = panda.asked[0]
    assert (path, headers["Authorization"], headers["Origin"]) == (
        "/api/v1/job/kill",
        "Bearer secret",
        "atlas:production",
    )
    # PanDA moves the jobs itself
    assert column(shared_database, LIVE) == [1, 2, 3, 4, 5]
    assert column(shared_database, ACTIONS) == [
        "1 reassigned 51 closed panda_api", "5 reassigned 51 closed panda_api",
        "2 killed 2 closed panda_api", "3 killed 2 running panda_api",
    ]  # fmt: skip
    assert column(
        shared_database, "SELECT concat_ws(' ', jeditaskid, datasetid, queue) FROM broker.rebrokered_from"
    ) == ["1 10 Q"]
    assert {item["pandaid"]: item["through"] for item in objects} == {
        1: "panda_api", 2: "panda_api", 3: "panda_api", 5: "panda_api"
    }  # fmt: skip
    # jobs that PanDA's Watcher ends anyway are only counted
    assert (record.counts["due"], record.counts["left_to_panda"], record.counts["failed"]) == (4, 1, 0)


def test_a_dry_run_asks_nothing_and_needs_no_server(shared_database: Database, panda: PlayedPanda) -> None:
    load_due_jobs(shared_database)
    record, objects = run(shared_database, "timeouts", dry=True, options=panda.options())
    assert (record.outcome, len(objects), panda.asked, column(shared_database, ACTIONS)) == ("done", 4, [], [])
    assert record.counts["left_to_panda"] == 1
    assert run(shared_database, "timeouts", dry=True, options={"through": "panda_api"})[0].outcome == "done"


def test_without_a_server_nothing_is_done(shared_database: Database) -> None:
    load_due_jobs(shared_database)
    record, _ = run(shared_database, "timeouts", job_generation="jedi")
    assert record.outcome != "done" and "none is named" in str(record.error)
    assert (column(shared_database, LIVE), column(shared_database, ACTIONS)) == ([1, 2, 3, 4, 5], [])


def test_jobs_that_panda_refuses_are_counted_and_not_recorded(shared_database: Database, panda: PlayedPanda) -> None:
    load_due_jobs(shared_database)
    panda.respond = lambda body: (200, {"success": True, "data": [job_id != 5 for job_id in body["job_ids"]]})
    record, objects = run(shared_database, "timeouts", options=panda.options())
    assert record.counts["skipped"] == 1 and 5 not in [item["pandaid"] for item in objects]
    assert [line.split()[0] for line in column(shared_database, ACTIONS)] == ["1", "2", "3"]


@pytest.mark.parametrize("origin", [None, "atlas"])
def test_without_the_production_role_the_error_names_role_and_origin(
    shared_database: Database, panda: PlayedPanda, origin: str | None
) -> None:
    load_due_jobs(shared_database)
    panda.respond, panda.production = says_no, False
    record, _ = run(shared_database, "timeouts", options=panda.options(origin=origin))
    assert record.outcome != "done"
    assert "refused all of 2 jobs" in str(record.error) and "no production role" in str(record.error)
    assert (f"origin {origin}" if origin else "no origin") in str(record.error)
    assert "atlas:production" in str(record.error)
    # no other request follows, since it would be refused as well
    assert [path for path, *_ in panda.asked] == [KILLS, WHO]
    assert column(shared_database, ACTIONS) == []


def test_jobs_that_are_all_refused_in_spite_of_the_role_are_an_error_too(
    shared_database: Database, panda: PlayedPanda
) -> None:
    load_due_jobs(shared_database)
    panda.respond = says_no
    record, _ = run(shared_database, "timeouts", options=panda.options(origin="atlas:production"))
    assert record.outcome != "done" and "refused all of 4 jobs" in str(record.error)
    assert "with production role (origin atlas:production)" in str(record.error)
    assert [path for path, *_ in panda.asked] == [KILLS, WHO, KILLS]


def test_a_first_request_that_is_refused_does_not_stop_the_others(
    shared_database: Database, panda: PlayedPanda
) -> None:
    load_due_jobs(shared_database)
    panda.respond = lambda body: says_no(body) if body["code"] == 51 else says_yes(body)
    record, _ = run(shared_database, "timeouts", options=panda.options())
    assert (record.outcome, record.counts["skipped"], record.counts["killed"]) == ("done", 2, 2)
    assert [line.split()[0] for line in column(shared_database, ACTIONS)] == ["2", "3"]


def test_a_job_of_the_event_service_is_ended_by_the_first_of_its_values(
    shared_database: Database, panda: PlayedPanda
) -> None:
    load_due_jobs(shared_database)
    panda.respond = lambda body: (200, {"success": True, "data": [[True, [], 0, None] for _ in body["job_ids"]]})
    record, _ = run(shared_database, "timeouts", options=panda.options())
    assert record.counts["skipped"] == 0 and len(column(shared_database, ACTIONS)) == 4


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (200, {"success": False, "message": "production role required"}, "production role required"),
        (503, {}, "status 503"),
        (
            403,
            b"ERROR : Token authentication failed. Not a member\n of the atlas/production group",
            "status 403: ERROR : Token authentication failed. Not a member of the atlas/production group",
        ),
        (200, b"no json", "PanDA did not end jobs"),
        (200, b" " * (2**20 + 1), "more than 1048576 bytes"),
    ],
)
def test_a_server_that_does_not_end_jobs_fails_the_cycle(
    shared_database: Database, panda: PlayedPanda, status: int, answer: Any, message: str
) -> None:
    load_due_jobs(shared_database)
    panda.respond = lambda body: (status, answer)
    record, _ = run(shared_database, "timeouts", options=panda.options())
    assert record.outcome != "done" and message in str(record.error)
    assert (len(panda.asked), column(shared_database, ACTIONS)) == (1, [])


def test_jobs_ended_before_a_failure_are_recorded(shared_database: Database, panda: PlayedPanda) -> None:
    load_due_jobs(shared_database)
    panda.respond = lambda body: (200, {"success": body["code"] == 51, "data": [True for _ in body["job_ids"]]})
    record, _ = run(shared_database, "timeouts", options=panda.options(jobs_of_a_request=1))
    assert record.outcome == "done" and "wait for the next cycle" in record.notes[0]
    assert [body["job_ids"] for body in panda.bodies] == [[1], [2]]
    assert [line.split()[0] for line in column(shared_database, ACTIONS)] == ["1"]


def test_fast_rebrokerage_uses_its_own_code_and_the_share_settles(
    shared_database: Database, panda: PlayedPanda
) -> None:
    jobs = [*(job(number) for number in range(1, 15)), job(100, "running")]
    fill(shared_database, jobs, config=[config("FAST_REBRO_THRESHOLD_NQUEUE_MC", 10)])
    record, _ = run(shared_database, "fast_rebrokerage", options=panda.options())
    assert (record.outcome, record.counts["moved"]) == ("done", 4)
    assert panda.bodies == [{"job_ids": [14, 13, 12, 11], "code": 10, "kill_options": ["keepUnmerged"]}]
    assert run(shared_database, "fast_rebrokerage", options=panda.options())[1][0]["exempt"] == "settling"
    assert len(panda.asked) == 1


def test_the_way_to_end_jobs() -> None:
    assert [EndingOptions().way(standalone) for standalone in (True, False)] == ["sql", "panda_api"]
    assert EndingOptions(through="sql").way(False) == "sql"
    with pytest.raises(Refused, match="none is named"):
        EndingOptions().server("timeouts")


def test_an_answer_that_drips_is_left_at_the_time_limit() -> None:
    with serving(DRIPPING["body"]) as server:
        api = PandaApi(PandaServer(server.address("/api"), FetchTerms(time_limit_s=1)), pausing())
        with pytest.raises(PandaRefuses, match="not over within 1 s"):
            api.kill(KillRequest(51, (1,)))
    assert len(server.asked) == 1


def pausing() -> Surroundings:
    return Surroundings(time.monotonic, lambda: 0.0, lambda seconds: None)

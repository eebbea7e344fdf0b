"""Tasks that panda-client submits, shows, kills, finishes and retries: the answers that it expects, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from broker.api.server import ApiServer
from broker.store.connection.database import Database
from broker.tasks.routes.client_tasks import NOT_SERVED
from tests.tasks.client.calls import Caller, prun, sandbox_name
from tests.tasks.client.conftest import archive

KINDS = [
    ("buildSpec", {"jobParameters": "-i ${IN}"}),
    ("preproSpec", {"jobParameters": "x"}),
    ("mergeOutput", True),
    ("mergeSpec", {"useLocalIO": 1}),
]


@pytest.fixture(autouse=True)
def emptied(shared: Database) -> None:
    with shared.begin() as connection:
        connection.execute(
            sa.text("TRUNCATE doma_panda.jedi_tasks, broker.sandboxes, doma_panda.jedi_taskparams CASCADE")
        )


def execute(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.execute(sa.text(statement))


def row(database: Database, query: str) -> Any:
    with database.begin() as connection:
        return connection.execute(sa.text(query)).one()


def test_prun_submits_with_one_token_and_gets_its_number_in_the_message(shared: Database, ada: Caller) -> None:
    name, content = sandbox_name(), archive()
    known = {"file_size": len(content), "checksum": int.from_bytes(content[-8:-4], "little")}
    assert ada.post("file_server/validate_cache_file", **known)["message"] == "NOTFOUND"
    assert ada.upload(name, content)["success"] is True
    task = ada.submitted(prun(archive=name))
    assert task >= 10_000_000, "pbook takes smaller numbers for numbers of requests"
    made = row(shared, f"SELECT * FROM doma_panda.jedi_tasks WHERE jeditaskid = {task}")
    assert (made.username, made.prodsourcelabel, made.vo) == ("ada", "user", "atlas")
    assert made.transpath == "http://127.0.0.1:1/trf/user/runGen", "prun names none"
    template = row(shared, f"SELECT jobparamstemplate, source_url FROM broker.task_templates WHERE jeditaskid = {task}")
    assert template.jobparamstemplate == (
        f'-j "" --sourceURL ${{SURL}} -r . -a {name} '
        f"-o \"{{'out.txt': 'user.ada.t1.{task}._${{SN/P}}.out.txt'}}\" -p \"./run.sh%20%3E%20out.txt\""
    )
    assert ada.get("task/get_status", task_id=task)["data"] == "ready"


@pytest.mark.parametrize(("name", "value"), KINDS)
def test_what_is_not_built_merged_or_prepared_is_refused_with_that_word(ada: Caller, name: str, value: Any) -> None:
    told = ada.submit(prun(**{name: value}))
    assert told["success"] is False and told["data"] == 4
    assert told["message"].startswith(f"{name} is ")
    assert "--noBuild" in told["message"] or "merge" in told["message"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"noSuchThing": 1}, "noSuchThing is 1: no such task parameter is known"),
        ({"nFilesPerJob": "many"}, "nFilesPerJob is 'many'"),
        ({"jobParameters": "text"}, "jobParameters is 'text'"),
        ({"taskName": None}, "taskName: it is missing"),
        ({"parent_tid": 999}, "there is no such task"),
    ],
)
def test_parameters_that_cannot_be_used_are_named(ada: Caller, change: dict[str, Any], said: str) -> None:
    told = ada.submit(prun(**change))
    assert (told["success"], told["data"]) == (False, 4) and said in told["message"]


@pytest.mark.parametrize(
    "body",
    [{}, {"task_parameters": 5}, {"task_parameters": {}, "parent_tid": "x"}, {"task_parameters": {}, "more": 1}, [1]],
)
def test_a_body_that_is_no_submission_is_an_answer(ada: Caller, body: Any) -> None:
    told = ada.answered(ada.client.post("/api/v1/task/submit", json=body))
    assert (told["success"], told["data"]) == (False, 101) and told["message"]
    broken = ada.client.post("/api/v1/task/submit", content=b"{", headers={"Content-Type": "application/json"})
    assert ada.answered(broken)["data"] == 101


def test_a_task_is_not_submitted_with_an_archive_that_is_not_there(ada: Caller, bob: Caller) -> None:
    name = sandbox_name()
    assert "ada has no archive" in ada.submit(prun(archive=name))["message"]
    bob.upload(name, archive())
    assert "ada has no archive" in ada.submit(prun(archive=name))["message"], "it is somebody else's"


def test_a_name_is_taken_until_its_task_ended_without_output(shared: Database, ada: Caller, bob: Caller) -> None:
    told = ada.submit(prun())
    assert "without effect" in told["message"] and "uniqueTaskName" not in told["message"], "it has an effect"
    task = row(shared, "SELECT jeditaskid FROM doma_panda.jedi_tasks").jeditaskid
    told = ada.submit(prun())
    assert (told["success"], told["data"]) == (False, 2)
    assert f"jediTaskID={task} is ready" in told["message"] and "--outDS" in told["message"]
    assert ada.submitted(prun(uniqueTaskName=False)) > task, "--allowTaskDuplication"
    assert bob.submitted(prun()) > task, "of somebody else"
    for status, is_taken in [("done", True), ("finished", True), ("failed", False), ("aborted", False)]:
        execute(shared, f"UPDATE doma_panda.jedi_tasks SET status = '{status}' WHERE username = 'ada'")
        assert ada.submit(prun())["success"] is not is_taken, status


def test_a_child_reads_what_its_parent_writes(shared: Database, ada: Caller) -> None:
    parent = ada.submitted(prun())
    child = ada.submitted(prun("user.ada.t2", noWaitParent=True), parent)
    assert row(shared, f"SELECT parent_tid FROM doma_panda.jedi_tasks WHERE jeditaskid = {child}")[0] == parent


def test_tasks_are_shown_to_pbook(shared: Database, ada: Caller, bob: Caller) -> None:
    first, second = ada.submitted(prun()), ada.submitted(prun("user.ada.t2"))
    bob.submitted(prun("user.bob.t1"))
    counts = "SET nfiles = 3, nfilesfinished = 2, nfilesfailed = 1"
    execute(shared, f"UPDATE doma_panda.jedi_datasets {counts} WHERE jeditaskid = {first} AND masterid IS NULL")
    execute(shared, f"UPDATE doma_panda.jedi_tasks SET status = 'finished' WHERE jeditaskid = {first}")

    def shown(**asked: Any) -> list[int]:
        told = ada.get("task/get_tasks_detailed_info_since", n_tasks=1000, **asked)
        assert told["success"], told
        return [one["jediTaskID"] for one in told["data"]]

    assert shown() == [second, first], "one's own, the newest first"
    assert shown(filters=f'{{"jediTaskID": "{first}"}}') == shown(filters=f'{{"reqID": "{first}"}}') == [first]
    assert shown(filters='{"superStatus": "ready"}') == [second]
    assert shown(filters='{"superStatus": "finished", "status": "done"}') == []
    assert shown(filters='{"taskName": "user.ada.t2/"}') == [second]
    assert len(shown(filters='{"userName": "bob"}')) == 1
    now = datetime.now(UTC)
    for shift, found in [(timedelta(hours=-1), [second, first]), (timedelta(hours=1), [])]:
        assert shown(since=(now + shift).strftime("%Y-%m-%d %H:%M:%S")) == found
    (told,) = ada.get("task/get_tasks_detailed_info_since", filters=f'{{"jediTaskID": "{first}"}}')["data"]
    expected = {
        "jediTaskID": first, "reqID": first, "taskName": "user.ada.t1/", "userName": "ada", "status": "finished",
        "superStatus": "finished", "nfiles": 3, "nfilesfinished": 2, "nfilesfailed": 1, "pctfinished": 66,
        "pctfailed": 33,
    }  # fmt: skip
    assert expected.items() <= told.items()
    assert datetime.fromisoformat(told["creationDate"]) and datetime.fromisoformat(told["modificationTime"])


@pytest.mark.parametrize(
    "asked",
    [
        {"filters": "{"}, {"filters": "[1]"}, {"filters": '{"colour": "red"}'}, {"filters": '{"jediTaskID": "1|2"}'},
        {"filters": '{"jediTaskID": [1]}'}, {"filters": '{"jediTaskID": "99999999999999999999"}'},
        {"since": "yesterday"}, {"n_tasks": 0}, {"n_tasks": 10_001}, {"n_tasks": "x"}, {"other": 1},
    ],
)  # fmt: skip
def test_a_question_that_cannot_be_read_is_refused(ada: Caller, asked: dict[str, Any]) -> None:
    told = ada.get("task/get_tasks_detailed_info_since", **asked)
    assert told["success"] is False and told["message"] and told["data"] in (4, 101)


def test_a_task_is_killed_by_its_owner_once(shared: Database, ada: Caller, bob: Caller) -> None:
    task = ada.submitted(prun())
    told = bob.post("task/kill", task_id=task)
    assert (told["success"], told["data"]) == (False, 3) and "not yours" in told["message"]
    told = ada.post("task/kill", task_id=task)
    assert told["success"] and f"jediTaskID={task}" in told["data"] and "aborted" in told["data"]
    told = ada.post("task/kill", task_id=task)
    assert (told["success"], told["data"]) == (False, 4) and f"task {task} is aborted" in told["message"]
    asked = row(shared, f"SELECT editor, reason FROM broker.task_verbs WHERE jeditaskid = {task}")
    assert asked.editor.startswith("sub-ada") and asked.reason == "panda-client"


def test_an_operator_acts_on_all_tasks(caller: Callable[..., Caller], ada: Caller) -> None:
    task = ada.submitted(prun())
    assert caller("op", "broker.operate").post("task/finish", task_id=task)["success"]


@pytest.mark.parametrize("verb", ["kill", "finish", "retry", "pause", "resume"])
@pytest.mark.parametrize(("task", "code"), [(999, 2), ("x", 101), (0, 101), (None, 101), (True, 101), (2**63, 101)])
def test_verbs_refuse_what_is_no_task(ada: Caller, verb: str, task: Any, code: int) -> None:
    told = ada.post(f"task/{verb}", task_id=task)
    assert (told["success"], told["data"]) == (False, code)


def test_finishing_softly_and_pausing(ada: Caller) -> None:
    task = ada.submitted(prun())
    assert ada.post("task/pause", task_id=task)["success"]
    assert ada.get("task/get_status", task_id=task)["data"] == "paused"
    assert ada.post("task/resume", task_id=task)["success"]
    assert ada.post("task/finish", task_id=task, soft=True)["success"]
    assert ada.get("task/get_status", task_id=task)["data"] != "ready"


def test_a_retry_answers_0_and_with_new_parameters_3(ada: Caller) -> None:
    task = ada.submitted(prun())
    told = ada.post("task/retry", task_id=task)
    assert (told["success"], told["data"]) == (False, 4), "there is nothing to retry"
    ada.post("task/kill", task_id=task)
    told = ada.post("task/retry", task_id=task)
    assert (told["success"], told["data"]) == (True, 0) and told["message"]
    told = ada.post("task/retry", task_id=task, new_parameters={"ramCount": 3000})
    assert (told["success"], told["data"]) == (True, 3), "pbook takes nothing else for done"
    told = ada.post("task/retry", task_id=task, new_parameters={"taskName": "x"})
    assert (told["success"], told["data"]) == (False, 4) and "taskName" in told["message"]


def test_what_a_task_is_made_of(ada: Caller) -> None:
    task = ada.submitted(prun())
    assert ada.get("task/get_task_parameters", task_id=task)["data"]["taskName"] == "user.ada.t1/"
    details = ada.get("task/get_details", task_id=task, include_parameters=True, include_status=True)["data"]
    assert details["taskParameters"]["nEvents"] == 2 and details["jobStatus"] == {}
    assert ada.get("task/get_detailed_info", task_id=task)["data"]["jediTaskID"] == task
    assert ada.get("task/get_job_ids", task_id=task)["data"] == []
    (found,) = ada.get("task/get_datasets_and_files", task_id=task)["data"]
    assert found["dataset"]["name"] == "pseudo_dataset" and len(found["files"]) == 2
    outputs = ada.get("task/get_datasets_and_files", task_id=task, dataset_types=["output", "log"])["data"]
    assert sorted(one["dataset"]["name"] for one in outputs) == ["user.ada.t1.log", "user.ada.t1_out.txt"]
    for method in ("get_details", "get_status", "get_job_ids", "get_task_parameters", "get_job_descriptions"):
        told = ada.get(f"task/{method}", task_id=999)
        assert (told["success"], told["data"]) == (False, 2), method


def test_jobs_are_described(shared: Database, ada: Caller) -> None:
    task = ada.submitted(prun())
    for job, status in ((1, "failed"), (2, "finished"), (3, "running")):
        table = "jobsactive4" if status == "running" else "jobsarchived4"
        columns = "pandaid, jeditaskid, jobstatus, attemptnr, jobdefinitionid, piloterrorcode"
        execute(shared, f"INSERT INTO doma_panda.{table} ({columns}) VALUES ({job}, {task}, '{status}', 0, 0, 1305)")
    assert ada.get("task/get_job_ids", task_id=task)["data"] == [1, 2, 3]
    (failed,) = ada.get("task/get_job_descriptions", task_id=task, unsuccessful_only=True)["data"]
    assert (failed["PandaID"], failed["jobStatus"], failed["pilotErrorCode"]) == (1, "failed", 1305)
    execute(shared, "TRUNCATE doma_panda.jobsactive4, doma_panda.jobsarchived4")


@pytest.mark.parametrize("route", NOT_SERVED)
def test_what_is_not_served_says_so_and_what_there_is_instead(ada: Caller, route: str) -> None:
    method, path = route.split()
    told = ada.answered(ada.client.request(method, f"/api/v1{path}", json={} if method == "POST" else None))
    assert told["success"] is False and "is not served here" in told["message"] and "instead: " in told["message"]


def test_who_may_call(server: ApiServer, caller: Callable[..., Caller], ada: Caller) -> None:
    with httpx.Client(base_url=server.url) as nobody:
        for path in ("task/submit", "task/kill", "file_server/validate_cache_file"):
            assert nobody.post(f"/api/v1/{path}", json={}).status_code == 401
        assert nobody.get("/api/v1/task/get_tasks_detailed_info_since").status_code == 401
        assert nobody.get("/api/v1/system/is_alive").status_code == 401
    reader = caller("rea", "broker.read")
    assert reader.client.post("/api/v1/task/submit", json={}).status_code == 403
    assert reader.get("task/get_tasks_detailed_info_since")["data"] == []
    assert "alive=yes" in ada.get("system/is_alive")["message"]
    assert ada.get("system/get_attributes")["data"]["environment"] == {"REMOTE_USER": "ada", "ROLES": "submitter"}


def test_one_token_counts_once_elsewhere(ada: Caller) -> None:
    assert [ada.submit(prun(f"user.ada.n{n}"))["success"] for n in range(3)] == [True] * 3
    task = ada.submitted(prun())
    answers = [ada.client.post(f"/api/v1/tasks/{task}:pause", json={}).status_code for _ in range(2)]
    assert answers == [200, 401]

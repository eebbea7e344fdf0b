"""panda-client submits, shows, kills, finishes and retries tasks: the answers it expects, and refusals."""

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
def empty_tables(shared_database: Database) -> None:
    with shared_database.begin() as connection:
        connection.execute(
            sa.text("TRUNCATE doma_panda.jedi_tasks, broker.sandboxes, doma_panda.jedi_taskparams CASCADE")
        )


def execute(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.execute(sa.text(statement))


def row(database: Database, query: str) -> Any:
    with database.begin() as connection:
        return connection.execute(sa.text(query)).one()


def test_prun_submits_with_one_token_and_gets_its_number_in_the_message(shared_database: Database, ada: Caller) -> None:
    name, content = sandbox_name(), archive()
    query = {"file_size": len(content), "checksum": int.from_bytes(content[-8:-4], "little")}
    assert ada.post("file_server/validate_cache_file", **query)["message"] == "NOTFOUND"
    assert ada.upload(name, content)["success"] is True
    task = ada.submit_task(prun(archive=name))
    assert task >= 10_000_000, "pbook takes smaller numbers for numbers of requests"
    stored = row(shared_database, f"SELECT * FROM doma_panda.jedi_tasks WHERE jeditaskid = {task}")
    assert (stored.username, stored.prodsourcelabel, stored.vo) == ("ada", "user", "atlas")
    assert stored.transpath == "http://127.0.0.1:1/trf/user/runGen", "prun names none"
    template = row(
        shared_database, f"SELECT jobparamstemplate, source_url FROM broker.task_templates WHERE jeditaskid = {task}"
    )
    assert template.jobparamstemplate == (
        f'-j "" --sourceURL ${{SURL}} -r . -a {name} '
        f"-o \"{{'out.txt': 'user.ada.t1.{task}._${{SN/P}}.out.txt'}}\" -p \"./run.sh%20%3E%20out.txt\""
    )
    assert ada.get("task/get_status", task_id=task)["data"] == "ready"


@pytest.mark.parametrize(("name", "value"), KINDS)
def test_build_merge_and_preprocessing_steps_are_refused_by_name(ada: Caller, name: str, value: Any) -> None:
    answer = ada.submit(prun(**{name: value}))
    assert answer["success"] is False and answer["data"] == 4
    assert answer["message"].startswith(f"{name} is ")
    assert "--noBuild" in answer["message"] or "merge" in answer["message"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noSuchThing": 1}, "noSuchThing is 1: no such task parameter is known"),
        ({"nFilesPerJob": "many"}, "nFilesPerJob is 'many'"),
        ({"jobParameters": "text"}, "jobParameters is 'text'"),
        ({"taskName": None}, "taskName: it is missing"),
        ({"parent_tid": 999}, "there is no such task"),
    ],
)
def test_invalid_parameters_are_named(ada: Caller, change: dict[str, Any], message: str) -> None:
    answer = ada.submit(prun(**change))
    assert (answer["success"], answer["data"]) == (False, 4) and message in answer["message"]


@pytest.mark.parametrize(
    "body",
    [{}, {"task_parameters": 5}, {"task_parameters": {}, "parent_tid": "x"}, {"task_parameters": {}, "more": 1}, [1]],
)
def test_an_invalid_submission_gets_an_error_answer(ada: Caller, body: Any) -> None:
    answer = ada.answer_of(ada.client.post("/api/v1/task/submit", json=body))
    assert (answer["success"], answer["data"]) == (False, 101) and answer["message"]
    response = ada.client.post("/api/v1/task/submit", content=b"{", headers={"Content-Type": "application/json"})
    assert ada.answer_of(response)["data"] == 101


def test_a_task_with_a_missing_archive_is_refused(ada: Caller, bob: Caller) -> None:
    name = sandbox_name()
    assert "ada has no archive" in ada.submit(prun(archive=name))["message"]
    bob.upload(name, archive())
    assert "ada has no archive" in ada.submit(prun(archive=name))["message"], "it is somebody else's"


def test_a_task_name_is_taken_until_its_task_ends_without_output(
    shared_database: Database, ada: Caller, bob: Caller
) -> None:
    answer = ada.submit(prun())
    assert "without effect" in answer["message"] and "uniqueTaskName" not in answer["message"], "it has an effect"
    task = row(shared_database, "SELECT jeditaskid FROM doma_panda.jedi_tasks").jeditaskid
    answer = ada.submit(prun())
    assert (answer["success"], answer["data"]) == (False, 2)
    assert f"jediTaskID={task} is ready" in answer["message"] and "--outDS" in answer["message"]
    assert ada.submit_task(prun(uniqueTaskName=False)) > task, "--allowTaskDuplication"
    assert bob.submit_task(prun()) > task, "of somebody else"
    for status, is_taken in [("done", True), ("finished", True), ("failed", False), ("aborted", False)]:
        execute(shared_database, f"UPDATE doma_panda.jedi_tasks SET status = '{status}' WHERE username = 'ada'")
        assert ada.submit(prun())["success"] is not is_taken, status


def test_a_child_reads_what_its_parent_writes(shared_database: Database, ada: Caller) -> None:
    parent = ada.submit_task(prun())
    child = ada.submit_task(prun("user.ada.t2", noWaitParent=True), parent)
    assert row(shared_database, f"SELECT parent_tid FROM doma_panda.jedi_tasks WHERE jeditaskid = {child}")[0] == parent


def test_tasks_are_shown_to_pbook(shared_database: Database, ada: Caller, bob: Caller) -> None:
    first, second = ada.submit_task(prun()), ada.submit_task(prun("user.ada.t2"))
    bob.submit_task(prun("user.bob.t1"))
    counts = "SET nfiles = 3, nfilesfinished = 2, nfilesfailed = 1"
    execute(
        shared_database, f"UPDATE doma_panda.jedi_datasets {counts} WHERE jeditaskid = {first} AND masterid IS NULL"
    )
    execute(shared_database, f"UPDATE doma_panda.jedi_tasks SET status = 'finished' WHERE jeditaskid = {first}")

    def list_tasks(**query: Any) -> list[int]:
        answer = ada.get("task/get_tasks_detailed_info_since", n_tasks=1000, **query)
        assert answer["success"], answer
        return [task["jediTaskID"] for task in answer["data"]]

    assert list_tasks() == [second, first], "one's own, the newest first"
    assert (
        list_tasks(filters=f'{{"jediTaskID": "{first}"}}') == list_tasks(filters=f'{{"reqID": "{first}"}}') == [first]
    )
    assert list_tasks(filters='{"superStatus": "ready"}') == [second]
    assert list_tasks(filters='{"superStatus": "finished", "status": "done"}') == []
    assert list_tasks(filters='{"taskName": "user.ada.t2/"}') == [second]
    assert len(list_tasks(filters='{"userName": "bob"}')) == 1
    now = datetime.now(UTC)
    for shift, expected_tasks in [(timedelta(hours=-1), [second, first]), (timedelta(hours=1), [])]:
        assert list_tasks(since=(now + shift).strftime("%Y-%m-%d %H:%M:%S")) == expected_tasks
    (details,) = ada.get("task/get_tasks_detailed_info_since", filters=f'{{"jediTaskID": "{first}"}}')["data"]
    expected = {
        "jediTaskID": first, "reqID": first, "taskName": "user.ada.t1/", "userName": "ada", "status": "finished",
        "superStatus": "finished", "nfiles": 3, "nfilesfinished": 2, "nfilesfailed": 1, "pctfinished": 66,
        "pctfailed": 33,
    }  # fmt: skip
    assert expected.items() <= details.items()
    assert datetime.fromisoformat(details["creationDate"]) and datetime.fromisoformat(details["modificationTime"])


@pytest.mark.parametrize(
    "query",
    [
        {"filters": "{"}, {"filters": "[1]"}, {"filters": '{"colour": "red"}'}, {"filters": '{"jediTaskID": "1|2"}'},
        {"filters": '{"jediTaskID": [1]}'}, {"filters": '{"jediTaskID": "99999999999999999999"}'},
        {"since": "yesterday"}, {"n_tasks": 0}, {"n_tasks": 10_001}, {"n_tasks": "x"}, {"other": 1},
    ],
)  # fmt: skip
def test_an_invalid_filter_is_refused(ada: Caller, query: dict[str, Any]) -> None:
    answer = ada.get("task/get_tasks_detailed_info_since", **query)
    assert answer["success"] is False and answer["message"] and answer["data"] in (4, 101)


def test_only_the_owner_kills_a_task_and_only_once(shared_database: Database, ada: Caller, bob: Caller) -> None:
    task = ada.submit_task(prun())
    answer = bob.post("task/kill", task_id=task)
    assert (answer["success"], answer["data"]) == (False, 3) and "not yours" in answer["message"]
    answer = ada.post("task/kill", task_id=task)
    assert answer["success"] and f"jediTaskID={task}" in answer["data"] and "aborted" in answer["data"]
    answer = ada.post("task/kill", task_id=task)
    assert (answer["success"], answer["data"]) == (False, 4) and f"task {task} is aborted" in answer["message"]
    stored = row(shared_database, f"SELECT editor, reason FROM broker.task_verbs WHERE jeditaskid = {task}")
    assert stored.editor.startswith("sub-ada") and stored.reason == "panda-client"


def test_an_operator_acts_on_all_tasks(caller: Callable[..., Caller], ada: Caller) -> None:
    task = ada.submit_task(prun())
    assert caller("op", "broker.operate").post("task/finish", task_id=task)["success"]


@pytest.mark.parametrize("verb", ["kill", "finish", "retry", "pause", "resume"])
@pytest.mark.parametrize(("task", "code"), [(999, 2), ("x", 101), (0, 101), (None, 101), (True, 101), (2**63, 101)])
def test_verbs_refuse_an_invalid_task(ada: Caller, verb: str, task: Any, code: int) -> None:
    answer = ada.post(f"task/{verb}", task_id=task)
    assert (answer["success"], answer["data"]) == (False, code)


def test_finishing_softly_and_pausing(ada: Caller) -> None:
    task = ada.submit_task(prun())
    assert ada.post("task/pause", task_id=task)["success"]
    assert ada.get("task/get_status", task_id=task)["data"] == "paused"
    assert ada.post("task/resume", task_id=task)["success"]
    assert ada.post("task/finish", task_id=task, soft=True)["success"]
    assert ada.get("task/get_status", task_id=task)["data"] != "ready"


def test_a_retry_answers_0_and_with_new_parameters_3(ada: Caller) -> None:
    task = ada.submit_task(prun())
    answer = ada.post("task/retry", task_id=task)
    assert (answer["success"], answer["data"]) == (False, 4), "there is nothing to retry"
    ada.post("task/kill", task_id=task)
    answer = ada.post("task/retry", task_id=task)
    assert (answer["success"], answer["data"]) == (True, 0) and answer["message"]
    answer = ada.post("task/retry", task_id=task, new_parameters={"ramCount": 3000})
    assert (answer["success"], answer["data"]) == (True, 3), "pbook takes nothing else for done"
    answer = ada.post("task/retry", task_id=task, new_parameters={"taskName": "x"})
    assert (answer["success"], answer["data"]) == (False, 4) and "taskName" in answer["message"]


def test_details_datasets_and_files_of_a_task(ada: Caller) -> None:
    task = ada.submit_task(prun())
    assert ada.get("task/get_task_parameters", task_id=task)["data"]["taskName"] == "user.ada.t1/"
    details = ada.get("task/get_details", task_id=task, include_parameters=True, include_status=True)["data"]
    assert details["taskParameters"]["nEvents"] == 2 and details["jobStatus"] == {}
    assert ada.get("task/get_detailed_info", task_id=task)["data"]["jediTaskID"] == task
    assert ada.get("task/get_job_ids", task_id=task)["data"] == []
    (input_dataset,) = ada.get("task/get_datasets_and_files", task_id=task)["data"]
    assert input_dataset["dataset"]["name"] == "pseudo_dataset" and len(input_dataset["files"]) == 2
    outputs = ada.get("task/get_datasets_and_files", task_id=task, dataset_types=["output", "log"])["data"]
    assert sorted(output["dataset"]["name"] for output in outputs) == ["user.ada.t1.log", "user.ada.t1_out.txt"]
    for method in ("get_details", "get_status", "get_job_ids", "get_task_parameters", "get_job_descriptions"):
        answer = ada.get(f"task/{method}", task_id=999)
        assert (answer["success"], answer["data"]) == (False, 2), method


def test_jobs_are_described(shared_database: Database, ada: Caller) -> None:
    task = ada.submit_task(prun())
    for job, status in ((1, "failed"), (2, "finished"), (3, "running")):
        table = "jobsactive4" if status == "running" else "jobsarchived4"
        columns = "pandaid, jeditaskid, jobstatus, attemptnr, jobdefinitionid, piloterrorcode"
        execute(
            shared_database,
            f"INSERT INTO doma_panda.{table} ({columns}) VALUES ({job}, {task}, '{status}', 0, 0, 1305)",
        )
    assert ada.get("task/get_job_ids", task_id=task)["data"] == [1, 2, 3]
    (failed,) = ada.get("task/get_job_descriptions", task_id=task, unsuccessful_only=True)["data"]
    assert (failed["PandaID"], failed["jobStatus"], failed["pilotErrorCode"]) == (1, "failed", 1305)
    execute(shared_database, "TRUNCATE doma_panda.jobsactive4, doma_panda.jobsarchived4")


@pytest.mark.parametrize("route", NOT_SERVED)
def test_an_unsupported_method_names_its_replacement(ada: Caller, route: str) -> None:
    method, path = route.split()
    answer = ada.answer_of(ada.client.request(method, f"/api/v1{path}", json={} if method == "POST" else None))
    assert answer["success"] is False and "is not served here" in answer["message"] and "instead: " in answer["message"]


def test_access_by_token_and_role(server: ApiServer, caller: Callable[..., Caller], ada: Caller) -> None:
    with httpx.Client(base_url=server.url) as anonymous:
        for path in ("task/submit", "task/kill", "file_server/validate_cache_file"):
            assert anonymous.post(f"/api/v1/{path}", json={}).status_code == 401
        assert anonymous.get("/api/v1/task/get_tasks_detailed_info_since").status_code == 401
        assert anonymous.get("/api/v1/system/is_alive").status_code == 401
    reader = caller("rea", "broker.read")
    assert reader.client.post("/api/v1/task/submit", json={}).status_code == 403
    assert reader.get("task/get_tasks_detailed_info_since")["data"] == []
    assert "alive=yes" in ada.get("system/is_alive")["message"]
    assert ada.get("system/get_attributes")["data"]["environment"] == {"REMOTE_USER": "ada", "ROLES": "submitter"}


def test_a_token_is_accepted_repeatedly_only_by_the_client_methods(ada: Caller) -> None:
    assert [ada.submit(prun(f"user.ada.n{n}"))["success"] for n in range(3)] == [True] * 3
    task = ada.submit_task(prun())
    answers = [ada.client.post(f"/api/v1/tasks/{task}:pause", json={}).status_code for _ in range(2)]
    assert answers == [200, 401]

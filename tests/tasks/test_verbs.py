"""Verbs on tasks: their effect on tasks, files and jobs, from submission to the pilot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agents.tasks import task_commands
from broker.errors import Refused
from broker.formats.statements.sss_exchange import NotOurTables
from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from broker.tasks.answers.task_verbs import Actor, TaskActedOn, VerbRequest, act_on_task
from broker.tasks.model.verbs import NotYours, Target, WrongState, WrongVerb
from tests.brokerages import small_grid
from tests.cli.commands import Command, runner
from tests.pilots.panda.pilot_grid import run_agent
from tests.tasks.running_tasks import (
    LATER,
    MUCH_LATER,
    column,
    counters,
    end_jobs,
    execute,
    job_states,
    reported,
    running,
    status_of,
    submit_task,
)

pytestmark = pytest.mark.slow

OPERATOR = Actor("op", is_operator=True)


@pytest.fixture
def broker(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    load(database, small_grid.scenario(), replace=True)
    return runner(capsys, "--db", database.url)


def act(database: Database, verb: Any, task: int, by: Actor = OPERATOR, **options: Any) -> TaskActedOn:
    return act_on_task(database, VerbRequest(verb, task, **options), by, MUCH_LATER)


def test_a_killed_task_ends_after_its_running_jobs_were_killed(
    database: Database, broker: Command, tmp_path: Path
) -> None:
    task = running(database, broker, tmp_path, maxAttempt=3)
    result = act(database, "kill", task, reason="wrong release")
    assert (result.status, result.jobs, result.told, result.left) == ("aborting", 2, 2, False)
    assert job_states(database, task) == {"cancelled": 2, "running": 2}
    assert column(database, "SELECT count(*) FROM broker.rebrokered_from") == [0]  # no evidence against the queue
    jobs = column(database, f"SELECT pandaid FROM doma_panda.jobsactive4 WHERE jeditaskid = {task}")
    assert [reported(database, job, "running") for job in jobs] == ["tobekilled", "tobekilled"]
    run_agent(database, "completion", MUCH_LATER)
    assert status_of(database, task) == "aborting"
    for job in jobs:
        reported(database, job, "failed")
    run_agent(database, "completion", MUCH_LATER)
    assert status_of(database, task) == "aborted"
    assert counters(database, task) == (4, 0, 0, 0, 0)
    with pytest.raises(WrongState, match=f"task {task} is aborted: it has ended; it does not take kill"):
        act(database, "kill", task)


def test_a_task_without_jobs_is_aborted_at_once(database: Database, broker: Command, tmp_path: Path) -> None:
    task = submit_task(broker, tmp_path, nucleus=None)
    assert status_of(database, task) == "assigning"
    result = broker("task", "kill", str(task), "--reason", "typo", "--editor", "ada", "--json")
    assert (result.status, result.document["old_status"], result.document["status"]) == (0, "assigning", "aborted")
    audit = broker("task", "audit", str(task), "--json").document
    assert (audit["verb"], audit["editor"], audit["reason"]) == ("kill", "ada", "typo")
    refused = broker("task", "finish", str(task))
    assert refused.status == 3 and f"task {task} is aborted" in refused.err and "possible now: retry" in refused.err
    assert broker("task", "kill", "999").status == 4


def test_a_task_locked_by_another_process_is_not_reported_as_ended(
    database: Database, broker: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = submit_task(broker, tmp_path, nucleus=None)
    with database.begin() as lock_holder:

        def end_tasks_under_lock(*arguments: Any) -> Any:
            query = "SELECT FROM doma_panda.jedi_tasks WHERE jeditaskid = :task FOR NO KEY UPDATE"
            lock_holder.execute(sa.text(query), {"task": task})
            return task_commands.end_tasks(*arguments)

        monkeypatch.setattr("broker.tasks.answers.task_verbs.end_tasks", end_tasks_under_lock)
        result = act(database, "kill", task)
        assert (result.status, status_of(database, task)) == ("aborting", "aborting")
        assert result.notes == ("another process writes to it now; the agent completion ends it in its next cycle",)
        record, emitted = run_agent(database, "completion", MUCH_LATER)
        assert (record.outcome, record.counts["tasks"], emitted) == ("done", 0, [])
    record, _ = run_agent(database, "completion", MUCH_LATER)
    assert (record.counts["tasks"], status_of(database, task)) == (1, "aborted")


def test_a_task_with_jobs_is_not_reported_as_locked(database: Database, broker: Command, tmp_path: Path) -> None:
    assert act(database, "finish", running(database, broker, tmp_path), soft=True).notes == ()


def test_the_agent_ends_jobs_beyond_the_limit(database: Database, broker: Command, tmp_path: Path) -> None:
    task = running(database, broker, tmp_path, count=6)
    result = act_on_task(database, VerbRequest("kill", task), OPERATOR, MUCH_LATER, most_jobs=2)
    assert result.left and result.jobs + result.told == 2
    record, _ = run_agent(database, "completion", MUCH_LATER)
    assert record.outcome == "done", record.error
    assert job_states(database, task) == {"cancelled": 3, "running": 3}
    assert column(database, "SELECT count(*) FROM broker.task_verbs WHERE carried_out_at IS NULL") == [0]


@pytest.mark.parametrize(("finished", "status"), [(0, "failed"), (2, "finished")])
def test_a_task_finished_softly_keeps_its_finished_jobs(
    database: Database, broker: Command, tmp_path: Path, finished: int, status: str
) -> None:
    task = running(database, broker, tmp_path)
    jobs = column(database, f"SELECT pandaid FROM doma_panda.jobsactive4 WHERE jeditaskid = {task} ORDER BY 1")
    result = act(database, "finish", task, soft=True)
    assert (result.status, result.jobs, result.told) == ("finishing", 0, 0)
    execute(database, f"UPDATE doma_panda.jobsactive4 SET jobstatus = 'running' WHERE jeditaskid = {task}")
    for job in jobs[:finished]:
        reported(database, job, "finished")
    for job in jobs[finished:]:
        reported(database, job, "failed")
    run_agent(database, "completion", MUCH_LATER)
    assert status_of(database, task) == status


def test_finishing_a_task_hard_ends_its_jobs(database: Database, broker: Command, tmp_path: Path) -> None:
    task = running(database, broker, tmp_path)
    result = act(database, "finish", task)
    assert (result.jobs, result.told) == (2, 2) and job_states(database, task) == {"closed": 2, "running": 2}
    codes = f"SELECT DISTINCT jobsubstatus FROM doma_panda.jobsarchived4 WHERE jeditaskid = {task}"
    assert column(database, codes) == ["taskdone"]


def test_a_failed_task_runs_again_with_more_memory(database: Database, broker: Command, tmp_path: Path) -> None:
    task = running(database, broker, tmp_path)
    end_jobs(database, task, finished=3)
    assert status_of(database, task) == "finished" and counters(database, task) == (4, 4, 3, 1, 4)
    result = broker("task", "retry", str(task), "--set", "ramCount=1500", "--json")
    assert result.status == 0, result.err
    assert (result.document["status"], result.document["files"]) == ("ready", 1)
    assert counters(database, task) == (4, 3, 3, 0, 3)
    execute(database, "DELETE FROM broker.rebrokered_from")
    for agent in ("production_job", "activation"):
        run_agent(database, agent, MUCH_LATER)
    memory = f"SELECT minramcount FROM doma_panda.jobsactive4 WHERE jeditaskid = {task}"
    assert column(database, memory) == [10_800], status_of(database, task)
    end_jobs(database, task, finished=1)
    assert status_of(database, task) == "done" and counters(database, task) == (4, 4, 4, 0, 4)
    with pytest.raises(WrongState, match="is done: it has ended, with all of its input finished"):
        act(database, "retry", task)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("ramCount=2", "ramCount is '2': it must be from 50"),
        ("ramcount=2000", "no such task parameter is known; task parameters; did you mean ramCount"),
        ("taskName=x", "taskName is 'x': it cannot be changed by a retry"),
        ("nGBPerJob=5", "nGBPerJob is 5: the task has no input files"),
        ("site=NOWHERE", "site is 'NOWHERE': there is none of that name"),
        ("ramCount", "not usable: ramCount"),
    ],
)
def test_bad_parameters_of_a_retry_are_refused_and_nothing_changes(
    database: Database, broker: Command, tmp_path: Path, assignment: str, message: str
) -> None:
    task = running(database, broker, tmp_path)
    end_jobs(database, task, finished=3)
    refused = broker("task", "retry", str(task), "--set", assignment)
    assert refused.status == 2 and message in refused.err, refused.err
    assert status_of(database, task) == "finished" and counters(database, task)[3] == 1


def test_failed_files_of_a_running_task_are_retried(database: Database, broker: Command, tmp_path: Path) -> None:
    task = running(database, broker, tmp_path)
    with pytest.raises(WrongState, match="no file of it is without an attempt left"):
        act(database, "retry", task)
    job, *_ = column(database, f"SELECT pandaid FROM doma_panda.jobsactive4 WHERE jeditaskid = {task} ORDER BY 1")
    reported(database, job, "failed")
    run_agent(database, "completion", MUCH_LATER)
    assert counters(database, task)[3] == 1
    assert (act(database, "retry", task).files, status_of(database, task)) == (1, "running")
    assert counters(database, task)[:4] == (4, 3, 0, 0)


def test_a_paused_task_generates_no_jobs_until_it_is_resumed(
    database: Database, broker: Command, tmp_path: Path
) -> None:
    task = submit_task(broker, tmp_path)
    assert act(database, "pause", task).status == "paused"
    run_agent(database, "production_job", LATER)
    assert job_states(database, task) == {} and status_of(database, task) == "paused"
    with pytest.raises(WrongState, match=r"is paused.*possible now: kill, finish, resume, priority"):
        act(database, "pause", task)
    assert act(database, "resume", task).status == "ready"
    run_agent(database, "production_job", LATER)
    assert job_states(database, task) == {"defined": 4}


def test_a_waiting_task_is_tried_at_once(database: Database, broker: Command, tmp_path: Path) -> None:
    task = submit_task(broker, tmp_path, ramCount=90_000)
    run_agent(database, "production_job", LATER)
    assert status_of(database, task) == "pending"
    execute(database, f"UPDATE doma_panda.jedi_tasks SET ramcount = 1000 WHERE jeditaskid = {task}")
    run_agent(database, "production_job", MUCH_LATER)
    assert status_of(database, task) == "pending"
    assert act(database, "try-now", task).status == "ready"
    run_agent(database, "production_job", MUCH_LATER)
    assert job_states(database, task) == {"defined": 4}


def test_a_retry_with_less_memory_wakes_a_waiting_task(database: Database, broker: Command, tmp_path: Path) -> None:
    task = submit_task(broker, tmp_path, ramCount=90_000)
    run_agent(database, "production_job", LATER)
    assert act(database, "retry", task, new_parameters={"ramCount": 1000}).status == "ready"


def test_a_task_that_waits_for_a_nucleus_is_due_at_once(database: Database, broker: Command, tmp_path: Path) -> None:
    task = submit_task(broker, tmp_path, nucleus=None)
    execute(database, f"UPDATE doma_panda.jedi_tasks SET modificationtime = now() WHERE jeditaskid = {task}")
    act(database, "try-now", task)
    due = f"SELECT modificationtime < '{MUCH_LATER:%F %T}'::timestamp - interval '30 min' FROM doma_panda.jedi_tasks"
    assert column(database, f"{due} WHERE jeditaskid = {task}") == [True]


def test_waiting_jobs_are_withdrawn_when_a_task_is_reassigned(
    database: Database, broker: Command, tmp_path: Path
) -> None:
    task = running(database, broker, tmp_path)
    at = f"SELECT DISTINCT computingsite FROM doma_panda.jobsactive4 WHERE jeditaskid = {task}"
    assert column(database, at) == ["ALPHA_MCORE"]
    assert act(database, "reassign", task, target=Target(site="ALPHA_MCORE, BETA")).jobs == 0  # already there
    result = act(database, "reassign", task, target=Target(site="BETA"))
    assert (result.jobs, result.told, result.status) == (2, 0, "running")
    assert job_states(database, task) == {"closed": 2, "running": 2}
    assert counters(database, task) == (4, 2, 0, 0, 2)  # ready again, although each file had one attempt


@pytest.mark.parametrize(("target", "nucleus"), [(Target(nucleus="BETA"), "BETA"), (Target(anew=True), None)])
def test_a_task_is_reassigned_to_another_nucleus(
    database: Database, broker: Command, tmp_path: Path, target: Target, nucleus: str | None
) -> None:
    task = running(database, broker, tmp_path)
    result = act(database, "reassign", task, target=target)
    assert (result.status, result.jobs) == ("assigning", 2)
    assert column(database, f"SELECT nucleus FROM doma_panda.jedi_tasks WHERE jeditaskid = {task}") == [nucleus]


def test_an_unknown_target_of_a_reassignment_is_refused(database: Database, broker: Command, tmp_path: Path) -> None:
    task = running(database, broker, tmp_path)
    refused = broker("task", "reassign", str(task), "--site", "GAMA_MCORE")
    assert refused.status == 2 and "did you mean GAMMA_MCORE" in refused.err
    assert broker("task", "reassign", str(task)).status == 2
    assert broker("task", "reassign", str(task), "--anew", "--nucleus", "BETA").status == 2


def test_waiting_jobs_get_the_priority_of_their_task(database: Database, broker: Command, tmp_path: Path) -> None:
    task = running(database, broker, tmp_path)
    assert act(database, "priority", task, priority=1234).jobs == 2
    by_state = f"SELECT DISTINCT currentpriority = 1234 FROM doma_panda.jobsactive4 WHERE jeditaskid = {task} AND "
    assert column(database, by_state + "jobstatus = 'activated'") == [True]
    assert column(database, by_state + "jobstatus = 'running'") == [False]
    run_agent(database, "activation", MUCH_LATER)
    waiting = f"""SELECT DISTINCT priority FROM broker.waiting_jobs JOIN doma_panda.jobsactive4 USING (pandaid)
        WHERE jeditaskid = {task}"""
    assert column(database, waiting) == [1234]
    for wrong in (-1, 100_001):
        with pytest.raises(WrongVerb):
            act(database, "priority", task, priority=wrong)


def test_owners_act_on_their_own_tasks_only(database: Database, broker: Command, tmp_path: Path) -> None:
    task = submit_task(broker, tmp_path)
    ada, bob, stranger = Actor("ada", "ada"), Actor("bob", "bob"), Actor("x")
    for actor in (bob, stranger):
        with pytest.raises(NotYours, match=f"task {task} is not yours"):
            act(database, "kill", task, actor)
    assert act(database, "priority", task, ada, priority=1000).status == "ready"
    with pytest.raises(NotYours, match="submitted with priority 1000; its owner may not set 1001"):
        act(database, "priority", task, ada, priority=1001)
    assert act(database, "kill", task, ada).status == "aborted"


def test_verbs_are_refused_alongside_panda(
    database: Database, broker: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.tasks.answers.task_verbs.migrate.check", lambda _: "alongside")
    with pytest.raises(NotOurTables, match="belong to a PanDA installation, which kill is asked of") as refused:
        act(database, "kill", 1)
    assert isinstance(refused.value, Refused) and "pbook" in refused.value.remedy

"""The classes of users and their tasks: which jobs and tasks count, and what is removed."""

from __future__ import annotations

from broker.store.connection.database import Database
from broker.store.scenarios.load_dump import load
from tests.agents.classified_grid import (
    HUGE,
    at,
    dry_cycle,
    evaluations,
    metrics,
    progress,
    site,
)
from tests.brokerages.small_grid import TASK, Row, next_cycle
from tests.brokerages.test_analysis_scenarios import analysis, user_jobs, user_task


def test_tasks_are_classed_by_the_slots_of_their_user(database: Database) -> None:
    """8000 slots at one queue: of class hi they leave nothing for A and B; of class mid they leave 1000 for A."""
    for row, expected in (
        (site("ALPHA_MCORE", 1, minutes=120), -1),
        (site("ALPHA_MCORE", 0), 1),
        (site("ALPHA_MCORE", 1, resource_type="hpc"), None),
    ):
        load(database, analysis(metrics=[row], jobsactive4=HUGE), replace=True)
        record, _ = next_cycle(database, agent="task_class")
        assert (record.outcome, record.notes) == ("done", ())
        assert {task: document["class"] for task, document in evaluations(database).items()} == (
            {} if expected is None else {TASK: expected}
        )
        assert len(metrics(database, "analy_user_eval")) == 1


def test_without_a_fresh_class_of_a_queue_users_are_not_evaluated(database: Database) -> None:
    """The last evaluation stays, and grows old; a task of Express Analysis is of class S all the same."""
    tasks = [user_task(), user_task(jeditaskid=TASK + 1, gshare="Express Analysis")]
    rows = [site("ALPHA_MCORE", 1, minutes=121), site("BETA", 7), site("GAMMA_MCORE", "hi"), site("GAMMA_OFF", None)]
    old = {"metric": "analy_user_eval", "value_json": {"alice": {}}, "timestamp": "2026-08-01T12:00:00"}
    load(database, analysis(jedi_tasks=tasks, metrics=[*rows, old | {"computingsite": "NULL", "gshare": "NULL"}]))
    record, _ = next_cycle(database, agent="task_class")
    assert "no class of a queue is fresh" in record.notes[0]
    assert record.notes[1:] == ("left out 2 x metrics: no_class", "left out 1 x metrics: wrong_type")
    assert (record.counts["users"], record.counts["not_evaluated"], record.counts["written"]) == (0, 1, 1)
    assert metrics(database, "analy_user_eval") == {"NULL": {"alice": {}}}
    assert {task: document["class"] for task, document in evaluations(database).items()} == {TASK + 1: 2}


def test_whose_jobs_count_for_a_user(database: Database) -> None:
    """Jobs of these shares count, merge and test jobs do not; NULL and 0 cores are one; throttled jobs do not wait."""
    plain_jobs = user_jobs("ALPHA_MCORE", 100, running=2, activated=3, starting=1, throttled=5, transferring=1)
    special_jobs = [
        plain_jobs[0] | {"pandaid": 200, "corecount": None},
        plain_jobs[0] | {"pandaid": 201, "corecount": 0},
        plain_jobs[0] | {"pandaid": 202, "processingtype": "pmerge"},
        plain_jobs[0] | {"pandaid": 203, "produsername": "gangarbt"},
        plain_jobs[0] | {"pandaid": 204, "gshare": "Group Analysis"},
        plain_jobs[0] | {"pandaid": 205, "gshare": "Express Analysis", "corecount": 8},
        plain_jobs[0] | {"pandaid": 206, "computingsite": None},
        plain_jobs[0] | {"pandaid": 207, "produsername": 'Zoë O\'Neill, "x"\\'},
    ]
    load(database, analysis(metrics=[site("ALPHA_MCORE", 1)], jobsactive4=[*plain_jobs, *special_jobs]))
    record, objects = next_cycle(database, agent="task_class")
    assert record.counts["users"] == 2
    users = metrics(database, "analy_user_eval")["NULL"]
    assert users["alice"]["A_sites"] == {"nQueue": 4, "nRunning": 5, "slotsQueue": 4, "slotsRunning": 12}
    assert users["alice"]["rem_slots_A"] == 988
    assert users['Zoë O\'Neill, "x"\\']["A_sites"]["nRunning"] == 1
    assert [item["user"] for item in objects] == ['Zoë O\'Neill, "x"\\', "alice", "alice"]


def test_which_tasks_are_evaluated(database: Database) -> None:
    evaluated_tasks: list[Row] = [
        {"status": "running"}, {"status": "scouting"}, {"status": "scouted"}, {"status": "pending"},
        {"status": "throttled"}, {"modificationtime": "2026-07-02T12:00:01"}, {"gshare": None},
    ]  # fmt: skip
    other_tasks: list[Row] = [
        {"status": "ready"}, {"status": "done"}, {"tasktype": "prod"}, {"tasktype": None}, {"prodsourcelabel": "panda"},
        {"username": "gangarbt"}, {"username": None}, {"username": "nobody"}, {"modificationtime": None},
        {"modificationtime": "2026-07-02T12:00:00"},
    ]  # fmt: skip
    tasks = [
        user_task(jeditaskid=number, **columns) for number, columns in enumerate([*evaluated_tasks, *other_tasks], 1)
    ]
    running = user_jobs("ALPHA_MCORE", 1, running=1)
    load(database, analysis(jedi_tasks=tasks, metrics=[site("ALPHA_MCORE", 1)], jobsactive4=running))
    record, objects = dry_cycle(database, "task_class")
    assert record.outcome == "done", record.error
    assert [item["jeditaskid"] for item in objects if "jeditaskid" in item] == list(range(1, len(evaluated_tasks) + 1))
    assert record.counts["not_evaluated"] == 2  # a task without a user, and a task of a user without jobs


def test_only_requested_tasks_are_evaluated(database: Database) -> None:
    tasks = [user_task(jeditaskid=number) for number in (1, 2, 3)]
    loaded = analysis(jedi_tasks=tasks, metrics=[site("ALPHA_MCORE", 1)], jobsactive4=HUGE)
    load(database, loaded)
    next_cycle(database, agent="task_class", task_ids=(2, 99))
    assert list(evaluations(database)) == [2]


def test_progress_counts_only_the_master_inputs(database: Database) -> None:
    """19 of 20 files in two masters with 40 jobs: 2 jobs are left. Secondary inputs and outputs do not count."""
    datasets = [
        progress(12, 12, datasetid=1, nfilesfailed=0),
        progress(8, 7, datasetid=2, type="pseudo_input", nfilesfailed=None),
        progress(1000, 0, datasetid=3, masterid=1),
        progress(1000, 0, datasetid=4, type="output"),
    ]
    contents = [
        {
            "jeditaskid": TASK,
            "datasetid": dataset,
            "fileid": 100 * dataset + file,
            "pandaid": 1000 * dataset + file // 2,
        }
        for dataset, files in ((1, 40), (2, 40), (3, 40))
        for file in range(files)
    ] + [{"jeditaskid": TASK, "datasetid": 1, "fileid": 1, "pandaid": None}]
    jobs = user_jobs("ALPHA_MCORE", 1, running=1)
    loaded = analysis(jedi_datasets=datasets, jedi_dataset_contents=contents, metrics=[site("ALPHA_MCORE", 1)], jobsactive4=jobs)  # fmt: skip  # noqa: E501
    load(database, loaded)
    _, objects = dry_cycle(database, "task_class")
    assert (objects[-1]["n_files_total"], objects[-1]["n_files_finished"], objects[-1]["n_files_failed"]) == (20, 19, 0)
    assert (objects[-1]["class"], objects[-1]["jobs"], objects[-1]["pct_finished"]) == ("S", 40, 95.0)


def test_evaluations_of_tasks_that_ended_are_removed(database: Database) -> None:
    """Evaluations of ended tasks go when they are older than two hours; others stay, with their time."""
    tasks = [user_task(jeditaskid=number, status=status) for number, status in ((1, "done"), (2, "done"), (3, "ready"))]
    rows = [
        {"jeditaskid": number, "metric": "analy_task_eval", "value_json": "{}", "timestamp": at(minutes)}
        for number, minutes in ((1, 120.1), (2, 120), (3, 500), (4, 500))
    ]
    load(database, analysis(jedi_tasks=tasks, task_evaluation=rows))
    record, _ = next_cycle(database, agent="task_class")
    assert (record.counts["forgotten"], sorted(evaluations(database))) == (1, [2, 3, 4])

"""The demand for pilots: as the agent counts it, as people and programs read it, and as Harvester gets it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.errors import WRONG_USAGE
from broker.pilots.answers.pilot_demand import pilot_demand, take_commands
from broker.pilots.routes.panda.app import pilot_app
from broker.store.connection.database import Database
from tests.api.serving import client_of, serving, shipped
from tests.cli.commands import runner
from tests.pilots.panda.client import Client
from tests.pilots.panda.pilot_grid import NOW, call, fill, follow, job, queue, row, rows, run_agent, task

SLOT = {"corecount": 8, "maxrss": 16000, "maxtime": 86400, "maxwdir": 20000, "corepower": 10, "capability": "ucore"}
TYPES = [
    {"resource_name": "SCORE", "mincore": 1, "maxcore": 1, "maxrampercore": 2000},
    {"resource_name": "MCORE", "mincore": 2, "maxrampercore": 2000},
]
SHARES = [{"name": "A", "value": 60}, {"name": "B", "value": 40}]
QUERY = "SELECT command_id, harvester_id, command, params, ack_requested, status FROM broker.harvester_commands"


def jobs(number: int, first: int = 1, **columns: Any) -> list[dict[str, Any]]:
    plain = {"resource_type": "SCORE", "corecount": 1, "gshare": "A"}
    return [job(first + at, **plain | columns) for at in range(number)]


def workers(minutes_ago: int = 5, harvester: str = "h", site: str = "Q", **numbers: int) -> list[dict[str, Any]]:
    """Statistics of workers of SCORE, by status."""
    stamp = (NOW - timedelta(minutes=minutes_ago)).replace(tzinfo=None).isoformat()
    columns = {"harvester_id": harvester, "computingsite": site, "resourcetype": "SCORE", "jobtype": "managed"}
    return [{**columns, "status": name, "n_workers": number, "lastupdate": stamp} for name, number in numbers.items()]


def prepare(database: Database, waiting: list[dict[str, Any]], data: dict[str, Any], **tables: Any) -> None:
    queues = [queue("Q", **SLOT | data)]
    defaults = {"schedconfig_json": queues, "resource_types": TYPES, "global_shares": SHARES}
    fill(database, waiting, **defaults | tables)


def count_demand(database: Database, **options: Any) -> list[dict[str, Any]]:
    record, objects = run_agent(database, "pilot_demand", options=options)
    assert record.outcome == "done", record.error
    return objects


def demand(database: Database) -> list[Any]:
    with database.read_snapshot() as connection:
        return pilot_demand(connection, database.names)


def wanted_by_type(database: Database) -> dict[str, int | None]:
    return {item.counted.demand.resource_type: item.counted.demand.wanted for item in demand(database)}


def test_demand_counts_fitting_jobs_waiting_pilots_and_the_cap(shared_database: Database) -> None:
    large = jobs(3, 100, minramcount=16001) + jobs(2, 200, maxwalltime=86401)
    mcore_jobs = jobs(4, 300, resource_type="MCORE", corecount=8, minramcount=16000, currentpriority=1)
    limits = {"params": {"nQueueLimitWorker": 32}}
    prepare(
        shared_database, jobs(40) + large + mcore_jobs, limits, harvester_worker_stats=workers(submitted=20, running=3)
    )
    objects = count_demand(shared_database)
    by_type = {item.counted.demand.resource_type: item for item in demand(shared_database)}
    assert by_type["SCORE"].why == (
        "12 wanted at Q: 40 jobs fit, 3 not for memory, 2 not for walltime, 20 pilots wait, cap 32"
    )
    assert (by_type["SCORE"].counted.demand.running, by_type["SCORE"].counted.demand.surplus) == (3, 0)
    assert (by_type["MCORE"].counted.demand.wanted, by_type["MCORE"].counted.demand.reason) == (0, "most_waiting")
    assert {item["why"] for item in objects} == {item.why for item in by_type.values()}
    assert count_demand(shared_database) == objects and len(demand(shared_database)) == 2, "counted anew, not added"


def test_the_share_that_is_furthest_below_its_target_comes_first(shared_database: Database) -> None:
    running = jobs(9, 500, jobstatus="running", gshare="A")
    waiting = jobs(5, gshare="A", currentpriority=900) + jobs(
        5, 50, gshare="B", resource_type="MCORE", corecount=8, currentpriority=1
    )
    prepare(shared_database, waiting + running, {"params": {"maxNewWorkersPerCycle": 7}})
    count_demand(shared_database)
    assert wanted_by_type(shared_database) == {
        "MCORE": 5,
        "SCORE": 2,
    }


@pytest.mark.parametrize(
    ("columns", "data", "misfit"),
    [
        ({}, {}, None),
        ({"prodsourcelabel": "user"}, {}, None),
        ({"prodsourcelabel": "rc_alrb"}, {}, "label"),
        ({}, {"status": "test"}, "label"),
        ({"prodsourcelabel": "test"}, {"status": "test"}, None),
        ({"maxcpucount": 600_000}, {}, None),
        ({"corecount": 9}, {}, "cores"),
        ({"maxdiskcount": 20001}, {}, "disk"),
    ],
)
def test_only_jobs_that_a_new_pilot_would_get_are_counted(
    shared_database: Database, columns: dict[str, Any], data: dict[str, Any], misfit: str | None
) -> None:
    prepare(shared_database, jobs(2, **columns), data)
    count_demand(shared_database)
    (item,) = demand(shared_database)
    assert item.counted.demand.misfits == ({} if misfit is None else {misfit: 2})
    assert item.counted.demand.wanted == (2 if misfit is None else 0)


def test_jobs_whose_software_the_queue_lacks_do_not_fit(shared_database: Database) -> None:
    software = {"sw_tags": [{"panda_queue": "Q", "data": json.dumps({"cmtconfigs": ["el9"]})}]}
    prepare(shared_database, jobs(2) + jobs(3, 50, jeditaskid=2), {}, jedi_tasks=[task(), task(2)], **software)
    with shared_database.begin() as connection:
        for number, platform in ((1, "el9"), (2, "el7")):
            connection.execute(
                sa.text("INSERT INTO broker.task_requirements (jeditaskid, platforms) VALUES (:t, CAST(:p AS jsonb))"),
                {"t": number, "p": json.dumps([platform])},
            )
        connection.execute(sa.text("TRUNCATE broker.waiting_jobs, broker.task_queues CASCADE"))
    follow(shared_database)
    count_demand(shared_database)
    (item,) = demand(shared_database)
    assert (item.counted.demand.fitting, item.counted.demand.misfits) == (2, {"platform": 3})


@pytest.mark.parametrize(("minutes", "number"), [(59, 3), (60, None), (600, None)])
def test_old_reports_of_workers_leave_the_demand_unknown(
    shared_database: Database, minutes: int, number: int | None
) -> None:
    prepare(shared_database, jobs(5), {}, harvester_worker_stats=workers(minutes, submitted=2))
    count_demand(shared_database)
    (item,) = demand(shared_database)
    assert item.counted.demand.wanted == number
    assert item.counted.demand.reason == ("fits" if number else "workers_unknown")


def test_a_dry_run_of_the_demand_writes_nothing(shared_database: Database) -> None:
    prepare(shared_database, jobs(5), {})
    record, objects = run_agent(shared_database, "pilot_demand", dry=True)
    assert record.counts["wanted"] == 5 and objects[0]["wanted"] == 5
    assert demand(shared_database) == []


def test_harvester_gets_its_commands_once_in_its_own_form(shared_database: Database) -> None:
    client = Client(pilot_app(shared_database))
    prepare(shared_database, jobs(3), {"harvester": "h"}, harvester_worker_stats=workers(submitted=1))
    count_demand(shared_database)
    count_demand(shared_database)
    (command_row,) = rows(shared_database, QUERY)
    assert command_row[1:] == ("h", "SET_N_WORKERS_JOBTYPE:Q", {"managed": {"SCORE": 2}}, 0, "new"), (
        "at most one a queue"
    )
    answer = call(client, "harvester/acquire_commands", harvester_id="other", n_commands=10)
    assert answer == {"success": True, "message": "", "data": []}
    (command,) = call(client, "harvester/acquire_commands", harvester_id="h", n_commands=10)["data"]
    assert set(command) == {"command_id", "command", "params", "ack_requested", "creation_date"}
    assert command["creation_date"] == NOW.replace(tzinfo=None).isoformat()
    assert call(client, "harvester/acquire_commands", harvester_id="h", n_commands=10)["data"] == []
    success = {"success": True, "message": "", "data": None}
    assert call(client, "harvester/acknowledge_commands", command_ids=[command["command_id"]]) == success
    assert call(client, "harvester/acknowledge_commands", command_ids=[]) == success
    assert row(shared_database, QUERY)["status"] == "acknowledged"


def test_commands_that_were_not_retrieved_are_not_acknowledged_and_bad_calls_are_refused(
    shared_database: Database,
) -> None:
    client = Client(pilot_app(shared_database))
    prepare(shared_database, jobs(3), {"harvester": "h"}, harvester_worker_stats=workers(submitted=1))
    count_demand(shared_database)
    call(client, "harvester/acknowledge_commands", command_ids=[row(shared_database, QUERY)["command_id"]])
    assert row(shared_database, QUERY)["status"] == "new"
    for method, values in (
        ("acquire_commands", {"harvester_id": "h", "n_commands": 0}),
        ("acquire_commands", {"harvester_id": "h", "n_commands": "5"}),
        ("acquire_commands", {"n_commands": 5}),
        ("acknowledge_commands", {"command_ids": ["x"]}),
        ("acknowledge_commands", {"command_ids": 5}),
    ):
        answer = call(client, f"harvester/{method}", **values)
        assert not answer["success"] and answer["message"].startswith("Argument error: "), (method, values)


def test_two_callers_never_get_the_same_command(shared_database: Database) -> None:
    queues = [queue(f"Q{number}", **SLOT, harvester="h") for number in range(20)]
    waiting = [item for at in range(20) for item in jobs(1, 10 * at + 1, computingsite=f"Q{at}")]
    stats = [item for at in range(20) for item in workers(site=f"Q{at}", submitted=0)]
    prepare(shared_database, waiting, {}, schedconfig_json=queues, harvester_worker_stats=stats)
    count_demand(shared_database)
    with ThreadPoolExecutor(4) as pool:
        command_ids = [
            item["command_id"]
            for part in pool.map(lambda _: take_commands(shared_database, "h", 5), range(8))
            for item in part
        ]
    assert len(command_ids) == len(set(command_ids)) == 20


def test_pandas_algorithm_on_recorded_statistics(shared_database: Database) -> None:
    stats = workers(running=100, submitted=20)
    mcore_numbers = {"running": 200, "submitted": 55}
    stats += [{**item, "resourcetype": "MCORE", "n_workers": mcore_numbers[item["status"]]} for item in stats]
    waiting = jobs(500, gshare="A", resource_type="MCORE", corecount=8) + jobs(1000, 1000, gshare="B")
    data = {"harvester": "h", "workflow": "pull_ups"}
    prepare(shared_database, waiting, data, harvester_worker_stats=stats)
    count_demand(shared_database, algorithm="panda")
    assert row(shared_database, QUERY)["params"] == {"managed": {"MCORE": 28, "SCORE": 0}}
    assert wanted_by_type(shared_database) == {
        "MCORE": 28,
        "SCORE": 0,
    }
    # the queue belongs to another instance
    prepare(shared_database, waiting, data | {"harvester": "other"}, harvester_worker_stats=stats)
    count_demand(shared_database, algorithm="panda")
    assert {item.counted.demand.reason for item in demand(shared_database)} == {"no_instance"}
    assert rows(shared_database, QUERY + " WHERE harvester_id = 'other'") == []


def test_the_command_and_an_unknown_queue(shared_database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    command = runner(capsys, "--db", shared_database.url)
    prepare(shared_database, [], {})
    count_demand(shared_database)
    assert "nothing is counted" in command("pilots", "demand").err
    prepare(shared_database, jobs(3), {})
    count_demand(shared_database)
    document = json.loads(command("pilots", "demand", "Q", "--json").out)
    why = "3 wanted at Q: 3 jobs fit, 0 pilots wait, one for each job that fits and has none"
    assert (document["counted"]["demand"]["wanted"], document["why"]) == (3, why)
    assert "3 jobs fit" in command("pilots", "demand").out
    result = command("pilots", "demand", "NOWHERE")
    assert result.status == WRONG_USAGE and "NOWHERE" in result.err


def test_the_api_and_the_metrics(shared_database: Database, tmp_path: Path) -> None:
    prepare(shared_database, jobs(3), {})
    count_demand(shared_database)
    with serving(shared_database, tmp_path, shipped(metrics={"queues": ["Q"]})) as server, client_of(server) as client:
        at_queue = client.get("/api/v1/queues/Q/demand").json()["pilots"]
        everywhere = client.get("/api/v1/pilot-demand").json()["items"]
        metrics = client.get("/metrics").text
    assert at_queue == everywhere and at_queue[0]["counted"]["demand"]["wanted"] == 3
    assert at_queue[0]["why"].startswith("3 wanted at Q: ")
    assert 'broker_pilots_wanted{resource_type="SCORE"} 3.0' in metrics
    assert 'broker_queue_pilots_wanted{queue="Q",resource_type="SCORE"} 3.0' in metrics

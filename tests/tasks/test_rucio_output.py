"""The outbox of outputs: what is registered in Rucio, in which order, and what happens to refused files."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agents.service import fault_points
from agents.service.base import CycleReport, CycleRequest
from agents.service.configuration import ConfigurationError, ProcessSettings
from agents.service.fault_points import InjectedFaultError
from agents.service.registry import make
from broker.store.connection.database import Database
from tests.agents.feeds.running import Feeding
from tests.cli.commands import runner
from tests.pilots.panda.pilot_grid import content, record, run_agent
from tests.tasks.writing_rucio import LATER, FakeWriter, about, agent, reported

pytestmark = pytest.mark.slow

OUT = ("mc", "mc.out")


@pytest.fixture
def feeding(database: Database, tmp_path: Path) -> Feeding:
    return Feeding(database, tmp_path)


def register(feeding: Feeding, rucio: FakeWriter, now: datetime = LATER, **options: Any) -> CycleReport:
    return feeding.run(agent(rucio, **options), now, request=CycleRequest())


def end_jobs(database: Database, feeding: Feeding, rucio: FakeWriter, jobs: int, **options: Any) -> FakeWriter:
    """Let jobs end after their dataset has been taken on."""
    reported(database, jobs, **options)
    register(feeding, rucio)
    run_agent(database, "completion", LATER)
    return rucio


def states(feeding: Feeding) -> list[tuple[Any, ...]]:
    return feeding.rows("SELECT state, reason_code FROM broker.rucio_files ORDER BY fileid")


def dataset(feeding: Feeding) -> tuple[Any, ...]:
    (row,) = feeding.rows("SELECT state, files, bytes, reason_code FROM broker.rucio_datasets")
    return row


def test_outputs_are_registered_and_their_dataset_is_closed_with_the_task(database: Database, feeding: Feeding) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 3)
    assert rucio.calls == [], "there was nothing to tell before the jobs ended"
    report = register(feeding, rucio)
    assert (report.counts["registered"], report.counts["closed"]) == (3, 1)
    assert rucio.calls == ["add_dataset", "add_files", "about_files", "state_of", "set_open"]
    rule = rucio.rules[OUT]
    assert rule is not None and (rule.rse_expression, rule.copies) == ("FAR", 1), "the endpoint of the nucleus"
    assert rucio.replicas == {("DISK", ("mc", f"out.{job}")) for job in (1, 2, 3)}, "where the pilots wrote"
    assert rucio.files["mc", "out.2"]["bytes"] == 102 and OUT in rucio.closed
    assert dataset(feeding) == ("closed", 3, 306, None)
    call_count = len(rucio.calls)
    register(feeding, rucio, LATER + timedelta(hours=1))
    assert len(rucio.calls) == call_count, "what is done is not told again"


@pytest.mark.parametrize(
    ("destination", "endpoint"), [("nucleus:NUC", "FAR"), ("ELSEWHERE", "ELSEWHERE"), (None, "FAR")]
)
def test_the_rule_names_the_destination_or_else_the_endpoint_of_the_nucleus(
    database: Database, feeding: Feeding, destination: str | None, endpoint: str
) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 1)
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE doma_panda.jedi_datasets SET destination = %s", (destination,))
    register(feeding, rucio)
    rule = rucio.rules[OUT]
    assert rule is not None and rule.rse_expression == endpoint


def test_files_are_registered_while_the_task_runs_and_its_dataset_stays_open(
    database: Database, feeding: Feeding
) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 2, files=5)
    register(feeding, rucio)
    assert states(feeding) == [("registered", None)] * 2 and rucio.closed == set()
    assert dataset(feeding)[0] == "open"


def test_jobs_that_ended_before_the_agent_was_enabled_are_taken_on(database: Database, feeding: Feeding) -> None:
    reported(database, 2)
    run_agent(database, "completion", LATER)
    rucio = FakeWriter()
    register(feeding, rucio)
    assert len(rucio.held[OUT]) == 2 and OUT in rucio.closed
    reported(database, 2)
    run_agent(database, "completion", LATER)
    later_rucio = FakeWriter()
    register(feeding, later_rucio, LATER + timedelta(days=2))
    assert later_rucio.calls == [], "a task of the day before yesterday is left alone"


@pytest.mark.parametrize(("jobs", "calls"), [(500, 1), (501, 2)])
def test_a_call_registers_at_most_500_files(database: Database, feeding: Feeding, jobs: int, calls: int) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), jobs)
    register(feeding, rucio)
    assert rucio.calls.count("add_files") == calls and len(rucio.held[OUT]) == jobs


def test_a_cycle_has_a_file_limit_and_the_next_one_continues(database: Database, feeding: Feeding) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 5)
    register(feeding, rucio, files_of_a_cycle=2)
    assert (len(rucio.held[OUT]), dataset(feeding)[0]) == (2, "open")
    register(feeding, rucio, files_of_a_cycle=3)
    assert (len(rucio.held[OUT]), dataset(feeding)[0]) == (5, "closed")


POINTS = ("before_rucio_files", "after_rucio_dataset", "after_rucio_files", "after_write_before_commit", "after_commit",
          "after_rucio_close")  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
def test_after_a_fault_at_any_point_nothing_is_lost_or_doubled(
    database: Database, feeding: Feeding, point: str
) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 3)
    fault_points.arm({"BROKER_FAULT": f"{point}:raise"})
    try:
        with pytest.raises(InjectedFaultError, match=point):
            register(feeding, rucio)
    finally:
        fault_points.disarm()
    report = register(feeding, rucio, LATER + timedelta(minutes=1))
    assert len(rucio.held[OUT]) == 3 and OUT in rucio.closed
    assert dataset(feeding) == ("closed", 3, 306, None), report
    assert feeding.rows("SELECT count(*) FROM broker.rucio_files") == [(3,)]


@pytest.mark.parametrize(
    ("difference", "code"),
    [
        ({"bytes": 99}, "size_differs"),
        ({"adler32": "ffffffff"}, "checksum_differs"),
        ({"guid": "f" * 32}, "guid_differs"),
    ],
)
def test_a_file_that_differs_in_rucio_is_refused_and_blocks_no_other(
    database: Database, feeding: Feeding, difference: dict[str, Any], code: str
) -> None:
    """Rucio refuses the whole call for a different size or checksum, and silently accepts a different guid."""
    rucio = FakeWriter()
    reported_file = {"bytes": 102, "adler32": f"{2:08x}", "guid": f"{2:032x}"}
    rucio.files["mc", "out.2"] = {**reported_file, **difference}
    end_jobs(database, feeding, rucio, 3)
    cycle_report = register(feeding, rucio)
    assert states(feeding) == [("registered", None), ("refused", code), ("registered", None)]
    assert any("mc:out.2 has" in note for note in cycle_report.notes)
    assert dataset(feeding)[0] == "open" and dataset(feeding)[3] == "files_refused", "it is not closed"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"fsize": None}, "size_unknown"),
        ({"adler32": "no"}, "checksum_unusable"),
        ({"guid": "g"}, "guid_unusable"),
    ],
)
def test_an_unusable_pilot_report_is_refused(
    database: Database, feeding: Feeding, changed: dict[str, Any], code: str
) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 2, changed={1: changed})
    register(feeding, rucio)
    assert states(feeding) == [("refused", code), ("registered", None)]


def test_a_file_without_a_known_endpoint_is_refused(database: Database, feeding: Feeding) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 1, queues=("TEST",))
    register(feeding, rucio)
    assert states(feeding) == [("refused", "endpoint_unknown")] and rucio.calls == []


def test_only_the_file_name_that_rucio_rejects_is_refused(database: Database, feeding: Feeding) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(not_taken={"out.5"}), 9)
    register(feeding, rucio)
    assert [code for state, code in states(feeding) if state == "refused"] == ["refused_by_rucio"]
    assert len(rucio.held[OUT]) == 8


def test_an_endpoint_unknown_to_rucio_delays_only_its_own_files(database: Database, feeding: Feeding) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(rses=("FAR",)), 4, queues=("Q", "R"))
    report = register(feeding, rucio)
    assert sorted(state for state, _ in states(feeding)) == ["queued", "queued", "registered", "registered"]
    assert any("RSE DISK cannot be found" in note for note in report.notes)
    rucio.rses = ("DISK", "FAR")
    register(feeding, rucio, LATER + timedelta(seconds=59))
    assert dataset(feeding)[0] == "open", "it waits after a failure"
    register(feeding, rucio, LATER + timedelta(seconds=60))
    assert dataset(feeding)[0] == "closed"


def test_an_outage_of_rucio_only_delays_registration(database: Database, feeding: Feeding) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(away=True), 3)
    attempts = []
    for minute in range(61):
        report = register(feeding, rucio, LATER + timedelta(minutes=minute))
        attempts += [minute] if report.counts["due"] else []
    assert attempts == [0, 1, 3, 7, 15, 30, 45, 60], "each pause is twice the last one, up to 15 minutes"
    assert states(feeding) == [("queued", None)] * 3
    rucio.away = False
    register(feeding, rucio, LATER + timedelta(minutes=75))
    assert dataset(feeding) == ("closed", 3, 306, None) and len(rucio.held[OUT]) == 3


def test_a_report_after_the_close_is_refused_and_noted(database: Database, feeding: Feeding) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 2)
    register(feeding, rucio)
    report_late(database, 7)
    report = register(feeding, rucio, LATER + timedelta(minutes=5))
    assert states(feeding)[-1] == ("refused", "after_close") and len(rucio.held[OUT]) == 2
    assert any("is closed: its task had ended before the report came" in note for note in report.notes)


def report_late(database: Database, job: int) -> None:
    """Let a job report after its task has ended."""
    from broker.tasks.statements.rucio_outputs import queue_jobs
    from tests.agents.feeds.wanting import insert

    row = content(1000 + job, job, 11, lfn=f"out.{job}", type="output", status="finished", scope="mc", fsize=5)
    insert(database, "jedi_dataset_contents", [row])
    insert(database, "filestable4", [{**record(job, 1000 + job, 11, type="output"), "destinationse": "DISK"}])
    with database.begin() as connection:
        assert queue_jobs(connection, database.names, [job], LATER) == 1


def test_a_restarted_task_reopens_its_dataset(database: Database, feeding: Feeding) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 2)
    register(feeding, rucio)
    set_status(database, "running")
    report_late(database, 7)
    register(feeding, rucio)
    assert OUT not in rucio.closed and len(rucio.held[OUT]) == 3 and dataset(feeding)[0] == "open"
    set_status(database, "done")
    register(feeding, rucio)
    assert OUT in rucio.closed and dataset(feeding)[:2] == ("closed", 3)


def test_a_task_that_ends_again_before_the_next_cycle(database: Database, feeding: Feeding) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 2)
    register(feeding, rucio)
    report_late(database, 7)
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE doma_panda.jedi_tasks SET statechangetime = %s", (LATER.replace(minute=2),))
    register(feeding, rucio, LATER + timedelta(minutes=2))
    assert OUT in rucio.closed and len(rucio.held[OUT]) == 3 and dataset(feeding)[:2] == ("closed", 3)


def set_status(database: Database, status: str) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE doma_panda.jedi_tasks SET status = %s", (status,))


def test_a_dataset_with_different_counts_in_rucio_stays_open(database: Database, feeding: Feeding) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 2)
    rucio.held[OUT] = {("mc", "strange"): {"bytes": 1}}
    report = register(feeding, rucio)
    assert dataset(feeding)[0] == "open" and dataset(feeding)[3] == "counts_differ"
    assert "3 files of 204 bytes are at Rucio, jobs reported 2 of 203 bytes" in report.notes[-1]


def test_a_dataset_closed_by_another_client(database: Database, feeding: Feeding) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 2, files=9)
    file = {"scope": "mc", "name": "out.1", **about(1), "bytes": 101}
    rucio.held[OUT] = {("mc", "out.1"): file}
    rucio.files["mc", "out.1"] = file
    rucio.closed.add(OUT)
    register(feeding, rucio)
    assert states(feeding) == [("registered", None), ("refused", "dataset_closed")]


def test_a_task_without_output_creates_no_dataset(database: Database, feeding: Feeding) -> None:
    reported(database, 1)
    set_status(database, "failed")
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE doma_panda.jedi_tasks SET statechangetime = %s", (LATER,))
    rucio = FakeWriter()
    register(feeding, rucio)
    assert rucio.calls == [] and dataset(feeding) == ("empty", 0, 0, None)


@pytest.mark.parametrize("name", ["mc.user.out/", "mc.user.out"])
def test_each_site_has_a_dataset_in_the_container_of_a_user(database: Database, feeding: Feeding, name: str) -> None:
    names = {"name": name, "container": "mc.user.out/"}  # as prun writes it, and as it is stored
    rucio = end_jobs(database, feeding, FakeWriter(), 4, **names, queues=("Q", "R"))
    register(feeding, rucio)
    (container,) = rucio.containers
    assert container == ("mc", "mc.user.out") and rucio.containers[container] == set(rucio.held) == rucio.closed
    assert sorted(len(files) for files in rucio.held.values()) == [2, 2]
    assert all(name.startswith("mc.user.out.") and name.rsplit(".", 1)[1].isdigit() for _, name in rucio.held)
    endpoints = {rule.rse_expression for rule in rucio.rules.values() if rule is not None}
    assert endpoints == {"DISK", "FAR"}, "what users write stays where it was written"
    rows = feeding.rows("SELECT site, state, files FROM broker.rucio_datasets ORDER BY site")
    assert rows == [("", "template", None), ("Q", "closed", 2), ("R", "closed", 2)]


@pytest.mark.parametrize(
    ("rules", "expression"),
    [
        ([{"rse_expression": "type=DISK&site={nucleus}", "copies": 2}], "type=DISK&site=NUC"),
        ([{"type": "log", "rse_expression": "LOGS"}, {"vo": "mine", "rse_expression": "{rse}"}], "DISK"),
        ([{"label": "user", "rse_expression": "{rse}"}], None),
        ([], None),
    ],
)
def test_the_first_matching_template_gives_the_rule(
    database: Database, feeding: Feeding, rules: list[dict[str, Any]], expression: str | None
) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 1)
    register(feeding, rucio, rules=rules)
    rule = rucio.rules[OUT]
    assert (None if rule is None else rule.rse_expression) == expression


def test_a_template_with_an_unknown_placeholder_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"no placeholder \{where\}; known are \{destination\}"):
        make("rucio_output", {"rules": [{"rse_expression": "{where}"}]}, ProcessSettings())


def test_a_dry_run_makes_no_calls(database: Database, feeding: Feeding) -> None:
    rucio = end_jobs(database, feeding, FakeWriter(), 1)
    report = feeding.run(agent(rucio), LATER, request=CycleRequest(dry_run=True))
    assert (report.counts["due"], rucio.calls) == (1, [])


def test_output_is_not_registered_in_rucio_alongside_panda(database: Database, feeding: Feeding) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE broker.installation SET mode = 'beside'")
    assert register(feeding, FakeWriter()).notes == ("PanDA registers the output of its jobs itself",)


def test_waiting_and_refused_outputs_are_shown_and_can_be_fixed(
    database: Database, feeding: Feeding, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = runner(capsys, "--db", database.url)
    rucio = FakeWriter()
    rucio.files["mc", "out.2"] = {"bytes": 99, "adler32": f"{2:08x}"}
    rucio.files["mc", "out.3"] = {"bytes": 98, "adler32": f"{3:08x}"}
    end_jobs(database, feeding, rucio, 3)
    waiting = broker("outputs", "list", "--json").document
    assert (waiting["queued"], waiting["oldest_queued"]) == (3, "2026-08-01T12:01:00Z")
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE broker.rucio_files SET queued_at = queued_at - interval '62 min'")
    alarms = {alarm["code"]: alarm for alarm in map(json.loads, broker("alarms", "--json").out.splitlines())}
    assert "the agent rucio_output has not come to it" in str(alarms["outputs_waiting"]["details"])
    assert "3 files wait to be registered in Rucio" in broker("doctor", "--json").out
    register(feeding, rucio)
    listing = broker("outputs", "list", "--task", "1")
    assert listing.status == 0 and "size_differs" in listing.out and "99 bytes at Rucio" in listing.out
    assert "2 files of mc:mc.out are not in Rucio" in broker("alarms").out
    assert "2 files are not in Rucio" in broker("doctor", "--json").out
    rucio.files.pop(("mc", "out.2"))
    rucio.held[OUT].pop(("mc", "out.2"), None)
    assert broker("outputs", "retry", "1", "out.2", "--json").document == {"jeditaskid": 1, "retried": 1}
    assert broker("outputs", "leave", "1", "out.3", "--reason", " ").status == 2
    left_out = broker("outputs", "leave", "1", "out.3", "--reason", "made by hand", "--editor", "ada", "--json")
    assert left_out.document == {"jeditaskid": 1, "left_out": 1}
    register(feeding, rucio, LATER + timedelta(hours=1))
    assert dataset(feeding) == ("closed", 2, 203, None)
    assert broker("alarms", "--json").out.count("output") == 0
    missing = broker("outputs", "retry", "1")
    assert missing.status == 4 and "there is no refused file of task 1" in missing.err
    assert broker("outputs", "list", "--task", "77").status == 4

"""The outbox of outputs: what Rucio is told of, in which order, and what becomes of what it does not take."""

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


def ended(database: Database, feeding: Feeding, rucio: FakeWriter, jobs: int, **given: Any) -> FakeWriter:
    """Jobs that end after their dataset was taken on."""
    reported(database, jobs, **given)
    register(feeding, rucio)
    run_agent(database, "completion", LATER)
    return rucio


def states(feeding: Feeding) -> list[tuple[Any, ...]]:
    return feeding.rows("SELECT state, reason_code FROM broker.rucio_files ORDER BY fileid")


def dataset(feeding: Feeding) -> tuple[Any, ...]:
    (row,) = feeding.rows("SELECT state, files, bytes, reason_code FROM broker.rucio_datasets")
    return row


def test_outputs_are_registered_and_their_dataset_is_closed_with_the_task(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(), 3)
    assert rucio.told == [], "there was nothing to tell before the jobs ended"
    told = register(feeding, rucio)
    assert (told.counts["registered"], told.counts["closed"]) == (3, 1)
    assert rucio.told == ["add_dataset", "add_files", "about_files", "state_of", "set_open"]
    rule = rucio.rules[OUT]
    assert rule is not None and (rule.rse_expression, rule.copies) == ("FAR", 1), "the endpoint of the nucleus"
    assert rucio.replicas == {("DISK", ("mc", f"out.{job}")) for job in (1, 2, 3)}, "where the pilots wrote"
    assert rucio.files["mc", "out.2"]["bytes"] == 102 and OUT in rucio.closed
    assert dataset(feeding) == ("closed", 3, 306, None)
    again = len(rucio.told)
    register(feeding, rucio, LATER + timedelta(hours=1))
    assert len(rucio.told) == again, "what is done is not told again"


@pytest.mark.parametrize(("named", "endpoint"), [("nucleus:NUC", "FAR"), ("ELSEWHERE", "ELSEWHERE"), (None, "FAR")])
def test_the_rule_is_for_the_endpoint_that_is_named_else_that_of_the_nucleus(
    database: Database, feeding: Feeding, named: str | None, endpoint: str
) -> None:
    rucio = ended(database, feeding, FakeWriter(), 1)
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE doma_panda.jedi_datasets SET destination = %s", (named,))
    register(feeding, rucio)
    rule = rucio.rules[OUT]
    assert rule is not None and rule.rse_expression == endpoint


def test_files_go_while_the_task_runs_and_its_dataset_stays_open(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(), 2, files=5)
    register(feeding, rucio)
    assert states(feeding) == [("registered", None)] * 2 and rucio.closed == set()
    assert dataset(feeding)[0] == "open"


def test_jobs_that_ended_before_the_agent_was_switched_on_are_taken_on(database: Database, feeding: Feeding) -> None:
    reported(database, 2)
    run_agent(database, "completion", LATER)
    rucio = FakeWriter()
    register(feeding, rucio)
    assert len(rucio.held[OUT]) == 2 and OUT in rucio.closed
    reported(database, 2)
    run_agent(database, "completion", LATER)
    late = FakeWriter()
    register(feeding, late, LATER + timedelta(days=2))
    assert late.told == [], "a task of the day before yesterday is left alone"


@pytest.mark.parametrize(("jobs", "calls"), [(500, 1), (501, 2)])
def test_a_call_has_500_files_at_most(database: Database, feeding: Feeding, jobs: int, calls: int) -> None:
    rucio = ended(database, feeding, FakeWriter(), jobs)
    register(feeding, rucio)
    assert rucio.told.count("add_files") == calls and len(rucio.held[OUT]) == jobs


def test_a_cycle_has_its_limit_and_the_next_one_goes_on(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(), 5)
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
    rucio = ended(database, feeding, FakeWriter(), 3)
    fault_points.arm({"BROKER_FAULT": f"{point}:raise"})
    try:
        with pytest.raises(InjectedFaultError, match=point):
            register(feeding, rucio)
    finally:
        fault_points.disarm()
    told = register(feeding, rucio, LATER + timedelta(minutes=1))
    assert len(rucio.held[OUT]) == 3 and OUT in rucio.closed
    assert dataset(feeding) == ("closed", 3, 306, None), told
    assert feeding.rows("SELECT count(*) FROM broker.rucio_files") == [(3,)]


@pytest.mark.parametrize(
    ("known", "code"),
    [
        ({"bytes": 99}, "size_differs"),
        ({"adler32": "ffffffff"}, "checksum_differs"),
        ({"guid": "f" * 32}, "guid_differs"),
    ],
)
def test_a_file_that_rucio_has_otherwise_is_found_and_keeps_no_other_back(
    database: Database, feeding: Feeding, known: dict[str, Any], code: str
) -> None:
    """Rucio refuses another size or checksum with the whole call, and takes another guid without a word."""
    rucio = FakeWriter()
    plain = {"bytes": 102, "adler32": f"{2:08x}", "guid": f"{2:032x}"}
    rucio.files["mc", "out.2"] = {**plain, **known}
    ended(database, feeding, rucio, 3)
    told = register(feeding, rucio)
    assert states(feeding) == [("registered", None), ("refused", code), ("registered", None)]
    assert any("mc:out.2 has" in note for note in told.notes)
    assert dataset(feeding)[0] == "open" and dataset(feeding)[3] == "files_refused", "it is not closed"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"fsize": None}, "size_unknown"),
        ({"adler32": "no"}, "checksum_unusable"),
        ({"guid": "g"}, "guid_unusable"),
    ],
)
def test_a_report_that_cannot_be_used_is_told(
    database: Database, feeding: Feeding, changed: dict[str, Any], code: str
) -> None:
    rucio = ended(database, feeding, FakeWriter(), 2, changed={1: changed})
    register(feeding, rucio)
    assert states(feeding) == [("refused", code), ("registered", None)]


def test_a_file_without_a_known_endpoint_is_told(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(), 1, queues=("TEST",))
    register(feeding, rucio)
    assert states(feeding) == [("refused", "endpoint_unknown")] and rucio.told == []


def test_a_name_that_rucio_does_not_take_is_found_among_many(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(not_taken={"out.5"}), 9)
    register(feeding, rucio)
    assert [code for state, code in states(feeding) if state == "refused"] == ["refused_by_rucio"]
    assert len(rucio.held[OUT]) == 8


def test_an_endpoint_that_rucio_does_not_know_holds_up_its_files_only(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(rses=("FAR",)), 4, queues=("Q", "R"))
    told = register(feeding, rucio)
    assert sorted(state for state, _ in states(feeding)) == ["queued", "queued", "registered", "registered"]
    assert any("RSE DISK cannot be found" in note for note in told.notes)
    rucio.rses = ("DISK", "FAR")
    register(feeding, rucio, LATER + timedelta(seconds=59))
    assert dataset(feeding)[0] == "open", "it waits after a failure"
    register(feeding, rucio, LATER + timedelta(seconds=60))
    assert dataset(feeding)[0] == "closed"


def test_rucio_away_for_an_hour_costs_nothing_but_time(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(away=True), 3)
    tries = []
    for minute in range(61):
        told = register(feeding, rucio, LATER + timedelta(minutes=minute))
        tries += [minute] if told.counts["due"] else []
    assert tries == [0, 1, 3, 7, 15, 30, 45, 60], "each pause is twice the last one, up to 15 minutes"
    assert states(feeding) == [("queued", None)] * 3
    rucio.away = False
    register(feeding, rucio, LATER + timedelta(minutes=75))
    assert dataset(feeding) == ("closed", 3, 306, None) and len(rucio.held[OUT]) == 3


def test_a_report_after_the_close_is_refused_and_told(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(), 2)
    register(feeding, rucio)
    late(database, 7)
    told = register(feeding, rucio, LATER + timedelta(minutes=5))
    assert states(feeding)[-1] == ("refused", "after_close") and len(rucio.held[OUT]) == 2
    assert any("is closed: its task had ended before the report came" in note for note in told.notes)


def late(database: Database, job: int) -> None:
    """A job of the task reports after its end."""
    from broker.tasks.statements.rucio_outputs import queue_jobs
    from tests.agents.feeds.wanting import insert

    row = content(1000 + job, job, 11, lfn=f"out.{job}", type="output", status="finished", scope="mc", fsize=5)
    insert(database, "jedi_dataset_contents", [row])
    insert(database, "filestable4", [{**record(job, 1000 + job, 11, type="output"), "destinationse": "DISK"}])
    with database.begin() as connection:
        assert queue_jobs(connection, database.names, [job], LATER) == 1


def test_a_task_that_is_started_again_opens_its_dataset_again(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(), 2)
    register(feeding, rucio)
    set_status(database, "running")
    late(database, 7)
    register(feeding, rucio)
    assert OUT not in rucio.closed and len(rucio.held[OUT]) == 3 and dataset(feeding)[0] == "open"
    set_status(database, "done")
    register(feeding, rucio)
    assert OUT in rucio.closed and dataset(feeding)[:2] == ("closed", 3)


def test_a_task_that_ended_again_before_anybody_looked(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(), 2)
    register(feeding, rucio)
    late(database, 7)
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE doma_panda.jedi_tasks SET statechangetime = %s", (LATER.replace(minute=2),))
    register(feeding, rucio, LATER + timedelta(minutes=2))
    assert OUT in rucio.closed and len(rucio.held[OUT]) == 3 and dataset(feeding)[:2] == ("closed", 3)


def set_status(database: Database, status: str) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE doma_panda.jedi_tasks SET status = %s", (status,))


def test_a_dataset_of_which_rucio_counts_otherwise_stays_open_and_is_told(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(), 2)
    rucio.held[OUT] = {("mc", "strange"): {"bytes": 1}}
    told = register(feeding, rucio)
    assert dataset(feeding)[0] == "open" and dataset(feeding)[3] == "counts_differ"
    assert "3 files of 204 bytes are at Rucio, jobs reported 2 of 203 bytes" in told.notes[-1]


def test_a_dataset_that_somebody_else_closed(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(), 2, files=9)
    there = {"scope": "mc", "name": "out.1", **about(1), "bytes": 101}
    rucio.held[OUT] = {("mc", "out.1"): there}
    rucio.files["mc", "out.1"] = there
    rucio.closed.add(OUT)
    register(feeding, rucio)
    assert states(feeding) == [("registered", None), ("refused", "dataset_closed")]


def test_a_task_that_wrote_nothing_makes_no_dataset(database: Database, feeding: Feeding) -> None:
    reported(database, 1)
    set_status(database, "failed")
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE doma_panda.jedi_tasks SET statechangetime = %s", (LATER,))
    rucio = FakeWriter()
    register(feeding, rucio)
    assert rucio.told == [] and dataset(feeding) == ("empty", 0, 0, None)


@pytest.mark.parametrize("name", ["mc.user.out/", "mc.user.out"])
def test_each_site_has_a_dataset_in_the_container_of_a_user(database: Database, feeding: Feeding, name: str) -> None:
    about_output = {"name": name, "container": "mc.user.out/"}  # as prun writes it, and as a submission keeps it
    rucio = ended(database, feeding, FakeWriter(), 4, **about_output, queues=("Q", "R"))
    register(feeding, rucio)
    (container,) = rucio.containers
    assert container == ("mc", "mc.user.out") and rucio.containers[container] == set(rucio.held) == rucio.closed
    assert sorted(len(files) for files in rucio.held.values()) == [2, 2]
    assert all(name.startswith("mc.user.out.") and name.rsplit(".", 1)[1].isdigit() for _, name in rucio.held)
    at = {rule.rse_expression for rule in rucio.rules.values() if rule is not None}
    assert at == {"DISK", "FAR"}, "what users write stays where it was written"
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
def test_the_rule_is_made_by_the_first_template_that_fits(
    database: Database, feeding: Feeding, rules: list[dict[str, Any]], expression: str | None
) -> None:
    rucio = ended(database, feeding, FakeWriter(), 1)
    register(feeding, rucio, rules=rules)
    rule = rucio.rules[OUT]
    assert (None if rule is None else rule.rse_expression) == expression


def test_a_template_with_an_unknown_placeholder_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"no placeholder \{where\}; known are \{destination\}"):
        make("rucio_output", {"rules": [{"rse_expression": "{where}"}]}, ProcessSettings())


def test_a_dry_run_tells_nothing(database: Database, feeding: Feeding) -> None:
    rucio = ended(database, feeding, FakeWriter(), 1)
    told = feeding.run(agent(rucio), LATER, request=CycleRequest(dry_run=True))
    assert (told.counts["due"], rucio.told) == (1, [])


def test_it_is_off_alongside_panda(database: Database, feeding: Feeding) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE broker.installation SET mode = 'beside'")
    assert register(feeding, FakeWriter()).notes == ("PanDA registers the output of its jobs itself",)


def test_what_waits_and_what_was_refused_is_shown_and_can_be_mended(
    database: Database, feeding: Feeding, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = runner(capsys, "--db", database.url)
    rucio = FakeWriter()
    rucio.files["mc", "out.2"] = {"bytes": 99, "adler32": f"{2:08x}"}
    rucio.files["mc", "out.3"] = {"bytes": 98, "adler32": f"{3:08x}"}
    ended(database, feeding, rucio, 3)
    waiting = broker("outputs", "list", "--json").document
    assert (waiting["queued"], waiting["oldest_queued"]) == (3, "2026-08-01T12:01:00Z")
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE broker.rucio_files SET queued_at = queued_at - interval '62 min'")
    kinds = {one["code"]: one for one in map(json.loads, broker("alarms", "--json").out.splitlines())}
    assert "the agent rucio_output has not come to it" in str(kinds["outputs_waiting"]["details"])
    assert "3 files wait to be registered in Rucio" in broker("doctor", "--json").out
    register(feeding, rucio)
    shown = broker("outputs", "list", "--task", "1")
    assert shown.status == 0 and "size_differs" in shown.out and "99 bytes at Rucio" in shown.out
    assert "2 files of mc:mc.out are not in Rucio" in broker("alarms").out
    assert "2 files are not in Rucio" in broker("doctor", "--json").out
    rucio.files.pop(("mc", "out.2"))
    rucio.held[OUT].pop(("mc", "out.2"), None)
    assert broker("outputs", "retry", "1", "out.2", "--json").document == {"jeditaskid": 1, "retried": 1}
    assert broker("outputs", "leave", "1", "out.3", "--reason", " ").status == 2
    left = broker("outputs", "leave", "1", "out.3", "--reason", "made by hand", "--editor", "ada", "--json")
    assert left.document == {"jeditaskid": 1, "left_out": 1}
    register(feeding, rucio, LATER + timedelta(hours=1))
    assert dataset(feeding) == ("closed", 2, 203, None)
    assert broker("alarms", "--json").out.count("output") == 0
    missing = broker("outputs", "retry", "1")
    assert missing.status == 4 and "there is no refused file of task 1" in missing.err
    assert broker("outputs", "list", "--task", "77").status == 4

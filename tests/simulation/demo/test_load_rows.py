from __future__ import annotations

from collections import Counter
from typing import Any

from broker.simulation.model.demo.facts import DemoFacts

Row = dict[str, Any]


def test_jobs_are_in_the_table_of_their_status(demo_scenario: Row) -> None:
    tables = demo_scenario["tables"]
    assert {row["jobstatus"] for row in tables["jobsactive4"]} == {"running", "activated", "starting", "transferring"}
    assert {row["jobstatus"] for row in tables["jobsdefined4"]} == {"defined", "assigned"}


def test_running_jobs_follow_the_slots_of_the_queue(demo_facts: DemoFacts, demo_scenario: Row) -> None:
    jobs = demo_scenario["tables"]["jobsactive4"]
    running = Counter(row["computingsite"] for row in jobs if row["jobstatus"] == "running")
    assert running["BNL"] == 220
    assert running["CERN"] == 14_000 // 80
    assert running["CERN_TEST"] == 2
    assert not [name for name in running if demo_facts.queues[name].status in ("offline", "paused")]


def test_jobs_with_a_pilot_reported_in_the_last_half_hour(demo_scenario: Row) -> None:
    jobs = demo_scenario["tables"]["jobsactive4"]
    times = [row["modificationtime"] for row in jobs if row["jobstatus"] in ("running", "starting")]
    assert "2026-08-01T11:30:00" <= min(times) <= max(times) < "2026-08-01T12:00:00"


def test_a_queue_can_have_its_own_transfer_backlog(demo_scenario: Row) -> None:
    jobs = demo_scenario["tables"]["jobsactive4"]
    transferring = Counter(row["computingsite"] for row in jobs if row["jobstatus"] == "transferring")
    assert transferring["UKI-NORTHGRID-LANCS-HEP"] == 130


def test_pilots_can_be_absent_stalled_or_unreported(demo_scenario: Row) -> None:
    pilots = {row["site"]: row for row in demo_scenario["tables"]["sitedata"]}
    assert pilots["UKI-SOUTHGRID-RALPP"]["getjob"] + pilots["UKI-SOUTHGRID-RALPP"]["updatejob"] == 0
    assert pilots["INFN-FRASCATI"]["laststart"] == "2026-08-01T07:00:00"
    assert pilots["INFN-FRASCATI"]["getjob"] > 0
    assert "BEIJING-LCG2" not in pilots


def test_slots_are_for_a_share_or_for_any_and_may_have_expired(demo_scenario: Row) -> None:
    slots = {(row["pandaqueuename"], row["gshare"]): row for row in demo_scenario["tables"]["harvester_slots"]}
    assert slots["CERN", None]["numslots"] == 1400
    assert slots["SiGNET", "Evgen"]["numslots"] == 0
    assert slots["pic", "MC 23"]["expirationtime"] == "2026-08-02T12:00:00"
    assert slots["SARA-MATRIX", None]["expirationtime"] == "2026-08-01T10:00:00"

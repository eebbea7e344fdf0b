"""Outputs into the real Rucio: what it has afterwards, its silences, and a process that is killed at each point."""

from __future__ import annotations

import signal
import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agents.service.base import CycleReport, CycleRequest
from agents.service.configuration import ProcessSettings
from agents.tasks.rucio_output import RucioOutputAgent, RucioOutputOptions
from broker.feeds.model.rucio.writing import RucioRefused, RucioWritingClient, Rule
from broker.store.connection.database import Database
from tests.agents.feeds.running import Feeding
from tests.fault.processes import PATIENCE_S, broker, free_leases
from tests.pilots.panda.pilot_grid import run_agent
from tests.rucio.conftest import RucioServer
from tests.tasks.writing_rucio import LATER, about, reported

ENDPOINTS = ("DISK", "FAR")
POINTS = (
    ("before_rucio_files", 0),
    ("after_rucio_dataset", 0),
    ("after_rucio_files", 4),
    ("after_write_before_commit", 4),
    ("after_commit", 4),
    ("after_rucio_close", 4),
)
"""Where the process is killed, and the files that are at Rucio then."""


@pytest.fixture(scope="module")
def places(rucio: RucioServer) -> tuple[str, str]:
    """The endpoints, without a limit of the account."""
    client = rucio.client()
    if "mc" not in set(client.list_scopes()):  # other modules use this server too
        client.add_scope("root", "mc")
    for rse in ENDPOINTS:
        rucio.add_endpoint(rse)
        client.set_local_account_limit("root", rse, -1)
    return ENDPOINTS


@pytest.fixture
def taken_on(rucio: RucioServer, places: tuple[str, str], feeding: Feeding, request: pytest.FixtureRequest) -> str:
    """Four jobs that have ended, and their dataset taken on; the name of it."""
    stem = f"o{zlib.crc32(request.node.name.encode())}"
    finish(rucio, feeding, stem, 4)
    return f"mc.{stem}"


def finish(rucio: RucioServer, feeding: Feeding, stem: str, jobs: int, **given: Any) -> None:
    reported(feeding.database, jobs, stem=stem, name=given.pop("name", f"mc:mc.{stem}"), **given)
    register(rucio, feeding)
    run_agent(feeding.database, "completion", LATER)


def register(rucio: RucioServer, feeding: Feeding, minutes: int = 0) -> CycleReport:
    options = RucioOutputOptions(rucio_config=rucio.configuration, time_limit_s=30)
    agent = RucioOutputAgent(options, ProcessSettings())
    return feeding.run(agent, LATER + timedelta(minutes=minutes), request=CycleRequest())


def at_rucio(rucio: RucioServer, name: str) -> dict[str, int]:
    """The files of a dataset with their bytes."""
    return {row["name"]: row["bytes"] for row in rucio.client().list_files("mc", name)}


def test_a_dataset_with_its_rule_and_files_is_closed(rucio: RucioServer, feeding: Feeding, taken_on: str) -> None:
    told = register(rucio, feeding)
    assert told.notes == () and (told.counts["registered"], told.counts["closed"]) == (4, 1)
    client = rucio.client()
    about_it = client.get_metadata("mc", taken_on)
    assert (about_it["is_open"], about_it["length"], about_it["bytes"]) == (False, 4, 410)
    (rule,) = client.list_did_rules("mc", taken_on)
    assert (rule["rse_expression"], rule["copies"], rule["account"]) == ("FAR", 1, "root")
    (one, *_) = client.list_replicas([{"scope": "mc", "name": next(iter(at_rucio(rucio, taken_on)))}])
    assert "DISK" in one["states"], "it is where the pilot wrote it"
    found = client.get_metadata("mc", f"{taken_on[3:]}.2")
    assert (found["bytes"], found["adler32"], found["guid"]) == (102, f"{2:08x}", f"{2:032x}")


@pytest.mark.parametrize(("point", "files"), POINTS)
def test_a_process_that_is_killed_neither_loses_nor_doubles(
    rucio: RucioServer, feeding: Feeding, taken_on: str, database: Database, tmp_path: Path, point: str, files: int
) -> None:
    rucio.client()  # names the configuration for the process
    with broker(database.url, "run", "rucio_output", fault=f"{point}:kill", markers=tmp_path) as process:
        assert process.wait(PATIENCE_S) == -signal.SIGKILL, process.communicate()
    assert (tmp_path / point).exists(), "the fault happened"
    assert len(at_rucio(rucio, taken_on)) == files
    free_leases(database)
    with broker(database.url, "run", "rucio_output") as process:
        out, told = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, out + told
    assert at_rucio(rucio, taken_on) == {f"{taken_on[3:]}.{job}": 100 + job for job in range(1, 5)}
    assert len(list(rucio.client().list_did_rules("mc", taken_on))) == 1
    assert rucio.client().get_metadata("mc", taken_on)["is_open"] is False
    query = "SELECT state, files, bytes, reason FROM broker.rucio_datasets"
    assert feeding.rows(query) == [("closed", 4, 410, None)]
    assert feeding.rows("SELECT DISTINCT state FROM broker.rucio_files") == [("registered",)]


def test_what_rucio_has_otherwise_is_found(rucio: RucioServer, places: tuple[str, str], feeding: Feeding) -> None:
    """A size is refused with the whole call, a guid is taken without a word: both are told, and the rest goes in."""
    plain = [
        {"scope": "mc", "name": f"differs.{job}", "bytes": 100 + job, "adler32": f"{job:08x}"} for job in (1, 2, 3)
    ]
    plain[0]["bytes"] = 7
    plain[1]["adler32"] = "ffffffff"
    plain[2]["meta"] = {"guid": "f" * 32}
    rucio.client().add_replicas("DISK", plain)
    finish(rucio, feeding, "differs", 5)
    told = register(rucio, feeding)
    found = feeding.rows("SELECT lfn, state, reason_code FROM broker.rucio_files ORDER BY fileid")
    assert found == [
        ("differs.1", "refused", "size_differs"),
        ("differs.2", "refused", "checksum_differs"),
        ("differs.3", "refused", "guid_differs"),
        ("differs.4", "registered", None),
        ("differs.5", "registered", None),
    ]
    assert rucio.client().get_metadata("mc", "mc.differs")["is_open"] is True
    assert any("mc:differs.1 has 7 bytes at Rucio, job 1 reported 101" in note for note in told.notes)


def test_a_server_that_is_away_costs_nothing_but_time(rucio: RucioServer, feeding: Feeding, taken_on: str) -> None:
    rucio.kill()
    try:
        told = register(rucio, feeding)
        assert told.counts["registered"] == 0 and "Rucio gives no answer" in told.notes[0]
        assert register(rucio, feeding, 0).counts["due"] == 0, "it waits before it asks again"
        assert register(rucio, feeding, 1).counts["postponed"] == 1
    finally:
        rucio.start()
    assert register(rucio, feeding, 60).counts["closed"] == 1
    assert len(at_rucio(rucio, taken_on)) == 4


def test_a_report_after_the_close_is_refused(rucio: RucioServer, feeding: Feeding, taken_on: str) -> None:
    register(rucio, feeding)
    writer = RucioWritingClient(30.0)
    late = {"scope": "mc", "name": f"{taken_on}.late", "bytes": 1}
    with pytest.raises(RucioRefused, match="is closed"):
        writer.add_files(("mc", taken_on), "DISK", [late])
    writer.set_open(("mc", taken_on), False)
    writer.set_open(("mc", taken_on), True)
    writer.add_files(("mc", taken_on), "DISK", [late])
    writer.add_files(("mc", taken_on), "DISK", [late])
    assert len(at_rucio(rucio, taken_on)) == 5, "told twice, held once"


def test_a_dataset_without_its_rule_gets_it_once(rucio: RucioServer, places: tuple[str, str]) -> None:
    rucio.client().add_dataset("mc", "mc.bare")
    writer = RucioWritingClient(30.0)
    for _ in range(2):
        writer.add_dataset(("mc", "mc.bare"), Rule("FAR"))
    (rule,) = rucio.client().list_did_rules("mc", "mc.bare")
    assert rule["rse_expression"] == "FAR"


def test_a_scope_that_is_not_there_is_said(rucio: RucioServer, places: tuple[str, str], feeding: Feeding) -> None:
    finish(rucio, feeding, "scopeless", 1, name="nowhere:out")
    told = register(rucio, feeding)
    assert told.notes == ("nowhere:out: ScopeNotFound: Scope does not exist. Scope not found!",)
    assert feeding.rows("SELECT state, reason_code FROM broker.rucio_datasets") == [("planned", "ScopeNotFound")]


def test_sites_write_into_the_container_of_a_user(
    rucio: RucioServer, places: tuple[str, str], feeding: Feeding
) -> None:
    finish(rucio, feeding, "mine", 4, name="mc:user.box/", queues=("Q", "R"))
    assert register(rucio, feeding).counts["closed"] == 2
    inside = [row["name"] for row in rucio.client().list_content("mc", "user.box")]
    assert len(inside) == 2 and all(name.startswith("user.box.") for name in inside)
    assert set(at_rucio(rucio, "user.box")) == {f"mine.{job}" for job in range(1, 5)}
    assert {about(job)["fsize"] for job in range(1, 5)} == set(at_rucio(rucio, "user.box").values())


def test_a_batch_of_500_goes_in_one_call(rucio: RucioServer, places: tuple[str, str], feeding: Feeding) -> None:
    finish(rucio, feeding, "many", 501)
    assert register(rucio, feeding).counts["closed"] == 1
    assert len(at_rucio(rucio, "mc.many")) == 501

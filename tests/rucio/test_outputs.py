"""Registration of outputs in a real Rucio: results, server outages, and a process killed at each fault point."""

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
from agents.tasks.rucio_writing import RucioWritingClient
from broker.feeds.model.rucio.writing import RucioRefused, Rule
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
"""The fault point where the process is killed, and how many files Rucio has at that point."""


@pytest.fixture(scope="module")
def places(rucio: RucioServer) -> tuple[str, str]:
    """The endpoints, without an account limit."""
    client = rucio.client()
    if "mc" not in set(client.list_scopes()):  # other modules use this server too
        client.add_scope("root", "mc")
    for rse in ENDPOINTS:
        rucio.add_endpoint(rse)
        client.set_local_account_limit("root", rse, -1)
    return ENDPOINTS


@pytest.fixture
def output_dataset(
    rucio: RucioServer, places: tuple[str, str], feeding: Feeding, request: pytest.FixtureRequest
) -> str:
    """Let four jobs end and the agent take on their output dataset; return the name of the dataset."""
    stem = f"o{zlib.crc32(request.node.name.encode())}"
    finish(rucio, feeding, stem, 4)
    return f"mc.{stem}"


def finish(rucio: RucioServer, feeding: Feeding, stem: str, jobs: int, **overrides: Any) -> None:
    reported(feeding.database, jobs, stem=stem, name=overrides.pop("name", f"mc:mc.{stem}"), **overrides)
    register(rucio, feeding)
    run_agent(feeding.database, "completion", LATER)


def register(rucio: RucioServer, feeding: Feeding, minutes: int = 0) -> CycleReport:
    options = RucioOutputOptions(rucio_config=rucio.configuration, time_limit_s=30)
    agent = RucioOutputAgent(options, ProcessSettings())
    return feeding.run(agent, LATER + timedelta(minutes=minutes), request=CycleRequest())


def files_in_rucio(rucio: RucioServer, name: str) -> dict[str, int]:
    """Return the sizes in bytes of the files of a dataset, by name."""
    return {row["name"]: row["bytes"] for row in rucio.client().list_files("mc", name)}


def test_a_dataset_with_its_rule_and_files_is_closed(rucio: RucioServer, feeding: Feeding, output_dataset: str) -> None:
    report = register(rucio, feeding)
    assert report.notes == () and (report.counts["registered"], report.counts["closed"]) == (4, 1)
    client = rucio.client()
    dataset = client.get_metadata("mc", output_dataset)
    assert (dataset["is_open"], dataset["length"], dataset["bytes"]) == (False, 4, 410)
    (rule,) = client.list_did_rules("mc", output_dataset)
    assert (rule["rse_expression"], rule["copies"], rule["account"]) == ("FAR", 1, "root")
    (replica, *_) = client.list_replicas([{"scope": "mc", "name": next(iter(files_in_rucio(rucio, output_dataset)))}])
    assert "DISK" in replica["states"], "it is where the pilot wrote it"
    file = client.get_metadata("mc", f"{output_dataset[3:]}.2")
    assert (file["bytes"], file["adler32"], file["guid"]) == (102, f"{2:08x}", f"{2:032x}")


@pytest.mark.parametrize(("point", "files"), POINTS)
def test_a_killed_process_neither_loses_nor_duplicates_files(
    rucio: RucioServer,
    feeding: Feeding,
    output_dataset: str,
    database: Database,
    tmp_path: Path,
    point: str,
    files: int,
) -> None:
    rucio.client()  # names the configuration for the process
    with broker(database.url, "run", "rucio_output", fault=f"{point}:kill", markers=tmp_path) as process:
        assert process.wait(PATIENCE_S) == -signal.SIGKILL, process.communicate()
    assert (tmp_path / point).exists(), "the fault happened"
    assert len(files_in_rucio(rucio, output_dataset)) == files
    free_leases(database)
    with broker(database.url, "run", "rucio_output") as process:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, out + err
    assert files_in_rucio(rucio, output_dataset) == {f"{output_dataset[3:]}.{job}": 100 + job for job in range(1, 5)}
    assert len(list(rucio.client().list_did_rules("mc", output_dataset))) == 1
    assert rucio.client().get_metadata("mc", output_dataset)["is_open"] is False
    query = "SELECT state, files, bytes, reason FROM broker.rucio_datasets"
    assert feeding.rows(query) == [("closed", 4, 410, None)]
    assert feeding.rows("SELECT DISTINCT state FROM broker.rucio_files") == [("registered",)]


def test_files_that_differ_in_rucio_are_refused(rucio: RucioServer, places: tuple[str, str], feeding: Feeding) -> None:
    """Rucio rejects a whole call for a wrong size but accepts a wrong guid. Both are reported."""
    replicas = [
        {"scope": "mc", "name": f"differs.{job}", "bytes": 100 + job, "adler32": f"{job:08x}"} for job in (1, 2, 3)
    ]
    replicas[0]["bytes"] = 7
    replicas[1]["adler32"] = "ffffffff"
    replicas[2]["meta"] = {"guid": "f" * 32}
    rucio.client().add_replicas("DISK", replicas)
    finish(rucio, feeding, "differs", 5)
    report = register(rucio, feeding)
    rows = feeding.rows("SELECT lfn, state, reason_code FROM broker.rucio_files ORDER BY fileid")
    assert rows == [
        ("differs.1", "refused", "size_differs"),
        ("differs.2", "refused", "checksum_differs"),
        ("differs.3", "refused", "guid_differs"),
        ("differs.4", "registered", None),
        ("differs.5", "registered", None),
    ]
    assert rucio.client().get_metadata("mc", "mc.differs")["is_open"] is True
    assert any("mc:differs.1 has 7 bytes at Rucio, job 1 reported 101" in note for note in report.notes)


def test_an_unavailable_server_only_delays_registration(
    rucio: RucioServer, feeding: Feeding, output_dataset: str
) -> None:
    rucio.kill()
    try:
        report = register(rucio, feeding)
        assert report.counts["registered"] == 0 and "Rucio gives no answer" in report.notes[0]
        assert register(rucio, feeding, 0).counts["due"] == 0, "it waits before it asks again"
        assert register(rucio, feeding, 1).counts["postponed"] == 1
    finally:
        rucio.start()
    assert register(rucio, feeding, 60).counts["closed"] == 1
    assert len(files_in_rucio(rucio, output_dataset)) == 4


def test_files_reported_after_the_close_are_refused(rucio: RucioServer, feeding: Feeding, output_dataset: str) -> None:
    register(rucio, feeding)
    writer = RucioWritingClient(30.0)
    late = {"scope": "mc", "name": f"{output_dataset}.late", "bytes": 1}
    with pytest.raises(RucioRefused, match="is closed"):
        writer.add_files(("mc", output_dataset), "DISK", [late])
    writer.set_open(("mc", output_dataset), False)
    writer.set_open(("mc", output_dataset), True)
    writer.add_files(("mc", output_dataset), "DISK", [late])
    writer.add_files(("mc", output_dataset), "DISK", [late])
    assert len(files_in_rucio(rucio, output_dataset)) == 5, "told twice, held once"


def test_a_dataset_without_a_rule_gets_exactly_one(rucio: RucioServer, places: tuple[str, str]) -> None:
    rucio.client().add_dataset("mc", "mc.bare")
    writer = RucioWritingClient(30.0)
    for _ in range(2):
        writer.add_dataset(("mc", "mc.bare"), Rule("FAR"))
    (rule,) = rucio.client().list_did_rules("mc", "mc.bare")
    assert rule["rse_expression"] == "FAR"


def test_a_missing_scope_is_reported(rucio: RucioServer, places: tuple[str, str], feeding: Feeding) -> None:
    finish(rucio, feeding, "scopeless", 1, name="nowhere:out")
    report = register(rucio, feeding)
    assert report.notes == ("nowhere:out: ScopeNotFound: Scope does not exist. Scope not found!",)
    assert feeding.rows("SELECT state, reason_code FROM broker.rucio_datasets") == [("planned", "ScopeNotFound")]


def test_each_site_writes_a_dataset_into_the_container_of_the_user(
    rucio: RucioServer, places: tuple[str, str], feeding: Feeding
) -> None:
    finish(rucio, feeding, "mine", 4, name="mc:user.box/", queues=("Q", "R"))
    assert register(rucio, feeding).counts["closed"] == 2
    datasets = [row["name"] for row in rucio.client().list_content("mc", "user.box")]
    assert len(datasets) == 2 and all(name.startswith("user.box.") for name in datasets)
    assert set(files_in_rucio(rucio, "user.box")) == {f"mine.{job}" for job in range(1, 5)}
    assert {about(job)["fsize"] for job in range(1, 5)} == set(files_in_rucio(rucio, "user.box").values())


def test_a_batch_of_500_files_is_registered(rucio: RucioServer, places: tuple[str, str], feeding: Feeding) -> None:
    finish(rucio, feeding, "many", 501)
    assert register(rucio, feeding).counts["closed"] == 1
    assert len(files_in_rucio(rucio, "mc.many")) == 501

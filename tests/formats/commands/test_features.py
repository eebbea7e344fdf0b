"""``broker features`` as used by sites and pilots."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from broker.store.connection.database import Database
from tests.cli.commands import Command, runner
from tests.formats.contract_cases import cases
from tests.formats.feature_server import serving

DOCUMENT = cases("machine_job_features")
NOW = "1700000000"


@pytest.fixture
def features(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.delenv("MACHINEFEATURES", raising=False)
    monkeypatch.delenv("JOBFEATURES", raising=False)
    return runner(capsys, "features")


def folder(path: Path, files: dict[str, str] | None) -> Path:
    path.mkdir()
    for name, text in (files or {}).items():
        (path / name).write_bytes(text.encode())
    return path


@pytest.mark.parametrize("case", DOCUMENT["cases"], ids=lambda case: case["what"])
def test_read_shows_the_derived_values(features: Command, tmp_path: Path, case: dict[str, object]) -> None:
    site = DOCUMENT["complete_site"] if case.get("site") == "complete" else {}
    machine = folder(tmp_path / "m", case["machine"])  # type: ignore[arg-type]
    job = folder(tmp_path / "j", {**site, **(case["job"] or {})})  # type: ignore[dict-item]
    queue = case.get("queue", {})
    options = [f"--{name.lower()}={value}" for name, value in queue.items()]  # type: ignore[attr-defined]
    if "process_start" in case:
        options.append(f"--process-start={case['process_start']}")
    result = features(
        "read", "--machinefeatures", str(machine), "--jobfeatures", str(job), "--at", NOW, "--json", *options
    )
    assert (result.status, result.err) == (0, "")
    document = result.document
    assert document["problems"] == case.get("problems", [])
    for name, value in case["gives"].items():  # type: ignore[attr-defined]
        assert document[name] == value, name


def test_the_directories_come_from_the_environment(
    features: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MACHINEFEATURES", str(folder(tmp_path / "m", {"total_cpu": "32"})))
    monkeypatch.setenv("JOBFEATURES", str(folder(tmp_path / "j", {"allocated_cpu": "8"})))
    document = features("read", "--at", NOW, "--json").document
    assert (document["machinefeatures"], document["jobfeatures"]) == ({"total_cpu": 32}, {"allocated_cpu": 8})
    table = features("read", "--at", NOW)
    assert table.status == 0 and "allocated_cpu" in table.out


def test_unset_variables_come_from_the_cloud(features: Command, tmp_path: Path) -> None:
    with serving() as cloud:
        cloud.file("/meta/machinefeatures", str(folder(tmp_path / "m", {"total_cpu": "32"})))
        cloud.file("/meta/jobfeatures", f"{cloud.base}/j")
        cloud.file("/j/allocated_cpu", "8")
        own_folder = str(folder(tmp_path / "own", {"total_cpu": "16"}))
        arguments = (
            "read",
            "--cloud-metadata",
            f"{cloud.base}/meta",
            "--metadata-kept",
            str(tmp_path / "kept"),
            "--json",
        )
        document = features(*arguments).document
        assert (document["machinefeatures"], document["jobfeatures"]) == ({"total_cpu": 32}, {"allocated_cpu": 8})
        assert features(*arguments, "--machinefeatures", own_folder).document["machinefeatures"] == {"total_cpu": 16}
        metadata_requests = sorted(path for path in cloud.requests if path.startswith("/meta"))
        assert metadata_requests == ["/meta/jobfeatures", "/meta/machinefeatures"]
    refusal = features("read", "--cloud-metadata", "/meta", "--metadata-kept", str(tmp_path / "no"), "--json")
    assert refusal.document["problems"] == ["cloud-metadata:refused"]


@pytest.mark.parametrize(("hs06sec", "seconds", "fits"), [(360_000, 3600, True), (360_001, 3601, False)])
def test_read_shows_whether_work_fits_into_the_guaranteed_time(
    features: Command, tmp_path: Path, hs06sec: int, seconds: int, fits: bool
) -> None:
    machine = folder(tmp_path / "m", {"grace_secs": "3600"})
    keys = {"allocated_cpu": "8", "hs06_job": "100", "jobstart_secs": NOW, "wall_limit_secs": "9000"}
    directories = ("--machinefeatures", str(machine), "--jobfeatures", str(folder(tmp_path / "j", keys)))
    arguments = ("read", *directories, "--at", NOW, "--hs06sec", str(hs06sec))
    document = features(*arguments, "--json").document
    assert (document["expected_walltime_s"], document["fits"]) == (seconds, fits)
    assert f"expected_walltime_s {seconds}" in " ".join(features(*arguments).out.replace("│", " ").split())
    without = features("read", "--at", NOW, "--hs06sec", str(hs06sec), "--json").document
    assert (without["expected_walltime_s"], without["fits"]) == (None, None)


def test_without_directories_nothing_is_known(features: Command) -> None:
    document = features("read", "--at", NOW, "--json").document
    assert (document["machinefeatures"], document["jobfeatures"], document["state"]) == ({}, {}, "run")


def test_publish_announce_and_withdraw(features: Command, tmp_path: Path) -> None:
    machine = str(tmp_path / "m")
    assert features("publish", machine, "total_cpu=32", "grace_secs=3600").status == 0
    soon = features("announce-shutdown", machine, "--shutdown", "1700003599", "--at", NOW)
    assert soon.status == 3 and "1700003600" in soon.err
    result = features("announce-shutdown", machine, "--shutdown", "1700003600", "--at", NOW, "--json")
    assert result.document == {"outcome": "announced", "shutdown": 1700003600, "before": None}
    document = features("read", "--machinefeatures", machine, "--at", NOW, "--json").document
    assert (document["state"], document["remaining_s"]) == ("draining", 3600)
    assert features("withdraw", machine, "--json").document == {"withdrawn": 1700003600}
    assert features("withdraw", machine, "--json").document == {"withdrawn": None}
    document = features("read", "--machinefeatures", machine, "--at", NOW, "--json").document
    assert document["state"] == "run"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("publish", "DIR", "hs06"), 2),
        (("publish", "DIR", "hs06=1", "hs06=2"), 2),
        (("publish", "DIR", "hs06=no"), 3),
        (("publish", "DIR", "allocated_cpu=8"), 3),
        (("announce-shutdown", "DIR", "--at", NOW), 3),
        (("read", "--at", "soon"), 2),
    ],
)
def test_invalid_commands_are_refused(
    features: Command, tmp_path: Path, arguments: tuple[str, ...], status: int
) -> None:
    result = features(*(str(tmp_path / "d") if word == "DIR" else word for word in arguments))
    assert (result.status, result.out) == (status, "")
    assert result.err


def test_a_pilot_reports_what_it_reads(database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = runner(capsys, "--db", database.url, "features")
    machine = folder(tmp_path / "m", {"total_cpu": "32", "hs06": "400", "shutdowntime": "1700007200"})
    job = folder(tmp_path / "j", {"allocated_cpu": "8", "wall_limit_secs": "7200", "job_id": "77"})
    arguments = ("--machinefeatures", str(machine), "--jobfeatures", str(job), "--queue", "Q", "--at", NOW)
    result = command("report", *arguments, "--json")
    assert result.status == 0
    assert result.document["kept"]
    late = command("report", *arguments[:-1], "1699999999")
    assert late.status == 0 and "newer report" in late.err
    with database.read_snapshot() as connection:
        row = connection.execute(sa.text("SELECT * FROM broker.feature_reports")).one()
    assert (row.queue, row.cores, row.wall_limit_s, row.keys["hs06"]) == ("Q", 8, 7200, 400.0)
    assert row.reporter.endswith(":77")
    assert (row.corepower, row.shutdown_at.timestamp()) == (12.5, 1700007200)
    assert command("report", "--queue", " ").status == 2

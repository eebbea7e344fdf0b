from __future__ import annotations

import os
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from broker.formats.model.feature_http import KeyResponse, fetch_all
from broker.formats.model.feature_keys import names_of
from broker.formats.model.feature_reader import FeatureReader, ReaderSettings, web_fetch
from broker.formats.model.machine_job_features import Features
from tests.formats.feature_server import FeatureServer

NOW = 1_700_000_000


def no_web(addresses: Sequence[str]) -> dict[str, KeyResponse]:
    raise AssertionError(f"asked the web for {addresses}")


def directory(path: Path, **files: str) -> str:
    path.mkdir(exist_ok=True)
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")
    return str(path)


def read(machine: str | None, job: str | None = None, settings: ReaderSettings | None = None) -> Features:
    return FeatureReader(machine, job, no_web, settings or ReaderSettings()).read(NOW)


def test_a_local_directory(tmp_path: Path) -> None:
    machine = directory(tmp_path / "m", total_cpu="32\n", hs06=" 400.0\r\n", README="nothing to see")
    job = directory(tmp_path / "j", allocated_cpu="8", job_id="1.site")
    features = read(machine + "/", job)
    assert (features.total_cpu, features.hs06, features.allocated_cpu, features.job_id) == (32, 400.0, 8, "1.site")
    assert features.problems == ()


@pytest.mark.parametrize(
    ("value", "problem"),
    [("relative", "machinefeatures:refused"), ("file:///etc", "machinefeatures:refused"), (None, ""), ("", "")],
)
def test_an_unusable_variable_counts_as_unset(value: str | None, problem: str) -> None:
    features = read(value)
    assert features.problems == ((problem,) if problem else ())
    assert features.known("machinefeatures") == {}


def test_a_missing_directory_and_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert read(str(tmp_path / "none")).problems == ("machinefeatures:missing",)
    assert read(str(tmp_path / "file")).problems == ("machinefeatures:not-readable",)


def test_only_small_regular_files_are_read(tmp_path: Path) -> None:
    machine = directory(tmp_path / "m")
    os.mkfifo(tmp_path / "m" / "shutdowntime")
    (tmp_path / "m" / "hs06").mkdir()
    (tmp_path / "secret").write_text("32", encoding="utf-8")
    (tmp_path / "m" / "total_cpu").symlink_to(tmp_path / "secret")
    (tmp_path / "m" / "grace_secs").write_text("1" * 4097, encoding="utf-8")
    assert read(machine).problems == (
        "grace_secs:too-long",
        "hs06:not-a-regular-file",
        "shutdowntime:not-a-regular-file",
        "total_cpu:link",
    )


def test_files_of_another_account_are_not_trusted(tmp_path: Path) -> None:
    machine = directory(tmp_path / "m", total_cpu="32")
    own_account = frozenset({os.getuid()})
    assert read(machine, settings=ReaderSettings(owners=own_account)).total_cpu == 32
    features = read(machine, settings=ReaderSettings(owners=frozenset({os.getuid() + 1})))
    assert (features.total_cpu, features.problems) == (None, ("total_cpu:wrong-owner",))


def test_static_keys_are_read_once_and_shutdown_times_when_due(tmp_path: Path) -> None:
    machine = directory(tmp_path / "m", total_cpu="32")
    reader = FeatureReader(machine, None, no_web)
    assert reader.read(NOW).shutdowntime is None
    directory(tmp_path / "m", total_cpu="16", shutdowntime=str(NOW + 7200))
    assert reader.read(NOW + 59).shutdowntime is None
    later = reader.read(NOW + 60)
    assert (later.shutdowntime, later.total_cpu) == (NOW + 7200, 32)
    (tmp_path / "m" / "shutdowntime").unlink()
    assert reader.read(NOW + 120).shutdowntime is None


def test_a_removed_directory_removes_its_shutdown_time(tmp_path: Path) -> None:
    machine = directory(tmp_path / "m", total_cpu="32", shutdowntime=str(NOW + 7200))
    reader = FeatureReader(machine, None, no_web)
    assert reader.read(NOW).shutdowntime == NOW + 7200
    (tmp_path / "m").rename(tmp_path / "gone")
    later = reader.read(NOW + 60)
    assert (later.shutdowntime, later.total_cpu, later.problems) == (None, 32, ("machinefeatures:missing",))


@pytest.mark.parametrize(("mode", "payload_may_write"), [(0o777, False), (0o755, True)])
def test_where_the_payload_may_write_a_shutdown_only_moves_earlier(
    tmp_path: Path, mode: int, payload_may_write: bool
) -> None:
    job = directory(tmp_path / "j", shutdowntime_job=str(NOW + 7200))
    (tmp_path / "j").chmod(mode)
    reader = FeatureReader(None, job, no_web, ReaderSettings(payload_may_write=payload_may_write))
    assert reader.read(NOW).shutdowntime_job == NOW + 7200
    (tmp_path / "j" / "shutdowntime_job").unlink()
    assert reader.read(NOW + 60).shutdowntime_job == NOW + 7200
    directory(tmp_path / "j", shutdowntime_job=str(NOW + 90_000))
    assert reader.read(NOW + 120).shutdowntime_job == NOW + 7200
    directory(tmp_path / "j", shutdowntime_job=str(NOW + 600))
    assert reader.read(NOW + 180).shutdowntime_job == NOW + 600


def test_a_web_server(server: FeatureServer) -> None:
    server.file("/m/total_cpu", "32\n")
    server.file("/m/shutdowntime", str(NOW + 7200), Cache_Control="max-age=200")
    server.file("/j/allocated_cpu", "<html>oops</html>")
    reader = FeatureReader(f"{server.base}/m/", f"{server.base}/j", web_fetch(lambda: 0.0))
    features = reader.read(NOW)
    assert (features.total_cpu, features.shutdowntime) == (32, NOW + 7200)
    assert features.problems == ("allocated_cpu:not-an-integer",)
    assert len(server.requests) == len(names_of("machinefeatures")) + len(names_of("jobfeatures"))
    server.requests.clear()
    reader.read(NOW + 199)
    assert server.requests == ["/j/shutdowntime_job"]  # without headers it is requested every minute
    server.file("/m/shutdowntime", "", 500)
    later = reader.read(NOW + 200)
    assert (later.shutdowntime, later.problems[-1]) == (NOW + 7200, "shutdowntime:no-answer")
    server.file("/m/shutdowntime", "", 404)
    assert reader.read(NOW + 259).shutdowntime == NOW + 7200
    assert reader.read(NOW + 260).shutdowntime is None


def test_reading_from_hanging_servers_takes_the_timeout_of_one_key(server: FeatureServer) -> None:
    def hang(request: BaseHTTPRequestHandler) -> None:
        server.release.wait(10)

    server.answers |= {f"/m/{name}": hang for name in names_of("machinefeatures")}
    server.answers |= {f"/j/{name}": hang for name in names_of("jobfeatures")}
    server.file("/m/total_cpu", "32")
    start = time.monotonic()
    reader = FeatureReader(
        f"{server.base}/m", f"{server.base}/j", lambda addresses: fetch_all(addresses, time.monotonic, 0.5)
    )
    features = reader.read(NOW)
    assert time.monotonic() - start < 2.0
    assert len(features.problems) == len(names_of("machinefeatures")) + len(names_of("jobfeatures")) - 1
    assert features.total_cpu == 32


@pytest.mark.parametrize(("control", "next_s"), [("max-age=1", 60), ("max-age=9999", 300), ("no-store", 60)])
def test_headers_move_the_next_request_within_bounds(server: FeatureServer, control: str, next_s: int) -> None:
    server.file("/m/shutdowntime", str(NOW + 7200), Cache_Control=control)
    reader = FeatureReader(f"{server.base}/m", None, web_fetch(lambda: 0.0))
    reader.read(NOW)
    server.requests.clear()
    reader.read(NOW + next_s - 1)
    assert server.requests == []
    reader.read(NOW + next_s)
    assert server.requests == ["/m/shutdowntime"]


def test_readers_are_spread_over_time(server: FeatureServer) -> None:
    server.file("/m/shutdowntime", str(NOW + 7200))
    reader = FeatureReader(f"{server.base}/m", None, web_fetch(lambda: 0.0), ReaderSettings(jitter=0.5))
    reader.read(NOW)
    server.requests.clear()
    reader.read(NOW + 89)
    assert server.requests == []
    reader.read(NOW + 90)
    assert server.requests == ["/m/shutdowntime"]

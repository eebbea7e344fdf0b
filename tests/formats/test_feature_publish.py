from __future__ import annotations

import stat
from pathlib import Path

import pytest

from broker.formats.model import feature_publish
from broker.formats.model.feature_publish import (
    BadFeatureError,
    CannotPublishError,
    NoGraceError,
    TooSoonError,
    announce_shutdown,
    publish,
    withdraw_shutdown,
)

NOW = 1_700_000_000


def files(path: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in path.iterdir()}


def test_keys_are_written_readable_for_all(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    publish(folder, "machinefeatures", {"total_cpu": "32", "hs06": " 400.5 "})
    assert files(folder) == {"total_cpu": "32\n", "hs06": "400.5\n"}
    assert stat.S_IMODE((folder / "hs06").stat().st_mode) == 0o644
    assert stat.S_IMODE(folder.stat().st_mode) & 0o755 == 0o755
    publish(folder, "machinefeatures", {"hs06": "401"})
    assert files(folder) == {"total_cpu": "32\n", "hs06": "401\n"}


@pytest.mark.parametrize(
    ("which", "values"),
    [
        ("machinefeatures", {"total_cpu": "0"}),
        ("machinefeatures", {"total_cpu": "-4"}),
        ("machinefeatures", {"hs06": "4e2"}),
        ("machinefeatures", {"hs06": ""}),
        ("machinefeatures", {"allocated_cpu": "8"}),
        ("jobfeatures", {"job_id": "my job"}),
        ("jobfeatures", {"../escape": "8"}),
        ("jobfeatures", {"allocated_cpu": "8", "max_rss_bytes": "lots"}),
    ],
)
def test_values_that_readers_would_reject_are_not_published(tmp_path: Path, which: str, values: dict[str, str]) -> None:
    with pytest.raises(BadFeatureError):
        publish(tmp_path / "d", which, values)  # type: ignore[arg-type]
    assert not (tmp_path / "d").exists()


def test_a_reader_never_sees_a_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(tmp_path, "machinefeatures", {"hs06": "400"})

    def crash(descriptor: int) -> None:
        raise OSError(5, "the disk is gone")

    monkeypatch.setattr(feature_publish.os, "fsync", crash)
    with pytest.raises(CannotPublishError, match="the disk is gone"):
        publish(tmp_path, "machinefeatures", {"hs06": "5"})
    assert files(tmp_path) == {"hs06": "400\n"}


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("x", encoding="utf-8")
    with pytest.raises(CannotPublishError):
        publish(tmp_path / "d", "machinefeatures", {"hs06": "5"})
    with pytest.raises(CannotPublishError):
        withdraw_shutdown(tmp_path / "d", "machinefeatures")


@pytest.mark.parametrize(("shutdown", "is_allowed"), [(NOW + 3599, False), (NOW + 3600, True), (NOW + 9000, True)])
def test_a_shutdown_within_the_grace_period_is_refused(tmp_path: Path, shutdown: int, is_allowed: bool) -> None:
    publish(tmp_path, "machinefeatures", {"grace_secs": "3600"})
    if not is_allowed:
        with pytest.raises(TooSoonError, match=str(NOW + 3600)):
            announce_shutdown(tmp_path, "machinefeatures", shutdown, NOW)
        assert "shutdowntime" not in files(tmp_path)
        return
    assert announce_shutdown(tmp_path, "machinefeatures", shutdown, NOW).outcome == "announced"
    assert files(tmp_path)["shutdowntime"] == f"{shutdown}\n"


def test_the_default_shutdown_is_the_earliest_that_the_grace_period_allows(tmp_path: Path) -> None:
    publish(tmp_path, "jobfeatures", {"grace_secs_job": "60"})
    announcement = announce_shutdown(tmp_path, "jobfeatures", None, NOW)
    assert (announcement.outcome, announcement.shutdown) == ("announced", NOW + 60)
    repeated_announcement = announce_shutdown(tmp_path, "jobfeatures", NOW + 60, NOW + 30)
    assert repeated_announcement.outcome == "unchanged"  # the announced time stays, however near it is now
    moved_announcement = announce_shutdown(tmp_path, "jobfeatures", None, NOW + 30)
    assert (moved_announcement.outcome, moved_announcement.shutdown, moved_announcement.before) == (
        "moved",
        NOW + 90,
        NOW + 60,
    )


def test_jobs_without_a_grace_period_are_not_shut_down(tmp_path: Path) -> None:
    with pytest.raises(NoGraceError):
        announce_shutdown(tmp_path, "machinefeatures", NOW + 10**6, NOW)
    announcement = announce_shutdown(tmp_path, "machinefeatures", NOW, NOW, jobs_run=False)
    assert announcement.outcome == "announced"


def test_an_announcement_is_withdrawn(tmp_path: Path) -> None:
    publish(tmp_path, "machinefeatures", {"grace_secs": "60"})
    announce_shutdown(tmp_path, "machinefeatures", NOW + 100, NOW)
    assert withdraw_shutdown(tmp_path, "machinefeatures") == NOW + 100
    assert withdraw_shutdown(tmp_path, "machinefeatures") is None
    assert withdraw_shutdown(tmp_path / "none", "machinefeatures") is None
    assert files(tmp_path) == {"grace_secs": "60\n"}

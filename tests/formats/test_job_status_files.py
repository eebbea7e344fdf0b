from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.formats.model.job_status import JobStatus, texts_of
from broker.formats.model.job_status_files import CannotWriteStatusError, Waiting, read, write

WAITING = Waiting(time.monotonic, lambda pause_s: None, at_most_s=5.0)
NOW = 1_700_000_000
IMPATIENT = Waiting(time.monotonic, lambda pause_s: None, at_most_s=0.0)
RECORD: dict[str, int | bool] = {
    "used_CPU": 6, "last_job_start": 1000, "first_exp_job_end": 2000, "last_exp_job_end": 3000,
    "last_max_job_end": 4000, "add_uncom_time": -5, "add_final_exp_waste": 70, "can_postpone_last_job": False,
    "priority_factor": 3,
}  # fmt: skip


def read_now(directory: Path, waiting: Waiting = WAITING) -> JobStatus:
    return read(directory, time.time(), waiting)


def test_a_written_record_is_read_back(tmp_path: Path) -> None:
    write(tmp_path, texts_of(RECORD), WAITING, NOW)
    status = read_now(tmp_path)
    assert status.by_key() == RECORD
    assert (status.flags, status.stale) == ((), False)


def test_a_shorter_record_replaces_a_longer_one_completely(tmp_path: Path) -> None:
    write(tmp_path, texts_of({**RECORD, "used_CPU": 128}), WAITING, NOW)
    before = (tmp_path / "used_CPU").stat().st_ino
    write(tmp_path, texts_of({"used_CPU": 0}), WAITING, NOW)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["used_CPU"]
    assert (tmp_path / "used_CPU").read_text() == "0\n"
    assert (tmp_path / "used_CPU").stat().st_ino == before  # the lock belongs to the file


@pytest.mark.slow
def test_readers_always_see_one_consistent_record(tmp_path: Path) -> None:
    records = [texts_of({key: number for key in RECORD if key != "can_postpone_last_job"}) for number in (1, 22, 333)]
    write(tmp_path, records[0], WAITING, NOW)
    stop = threading.Event()
    failures: list[Exception] = []

    def keep_writing(texts: dict[str, str]) -> None:
        try:
            while not stop.is_set():
                write(tmp_path, texts, WAITING, NOW)
        except CannotWriteStatusError as error:
            failures.append(error)

    writers = [threading.Thread(target=keep_writing, args=(texts,)) for texts in records]
    for writer in writers:
        writer.start()
    try:
        records_read = [read_now(tmp_path) for _ in range(200)]
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert failures == []
    assert {len(set(status.by_key().values())) for status in records_read} == {1}
    assert {len(status.by_key()) for status in records_read} == {8}


def test_other_values_are_held_off_after_a_turn_back_to_true(tmp_path: Path) -> None:
    def write_and_diff(change: dict[str, int | bool], at: int, hold_off_s: int = 600) -> dict[str, int | bool]:
        write(tmp_path, texts_of({**RECORD, **change}), WAITING, at, hold_off_s)
        return {key: value for key, value in read_now(tmp_path).by_key().items() if RECORD[key] != value}

    later: dict[str, int | bool] = {"can_postpone_last_job": True, "used_CPU": 4, "last_exp_job_end": 9000}
    write_and_diff({}, NOW)
    assert write_and_diff(later, NOW + 10) == {"can_postpone_last_job": True}
    assert write_and_diff(later, NOW + 609) == {"can_postpone_last_job": True}
    assert write_and_diff({"used_CPU": 5}, NOW + 609) == {}
    assert write_and_diff(later, NOW + 609 + 600) == {"can_postpone_last_job": True}  # it turned back again
    assert write_and_diff(later, NOW + 609 + 599 + 600) == {"can_postpone_last_job": True}
    assert write_and_diff(later, NOW + 609 + 600 + 600) == later
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(RECORD)


@contextmanager
def lock(directory: Path, kind: int) -> Iterator[None]:
    with (directory / "used_CPU").open("rb+") as file:
        fcntl.flock(file, kind)
        yield


def test_a_held_lock_does_not_block_the_reader(tmp_path: Path) -> None:
    write(tmp_path, texts_of(RECORD), WAITING, NOW)
    with lock(tmp_path, fcntl.LOCK_EX):
        status = read_now(tmp_path, IMPATIENT)
    assert status.by_key() == RECORD
    assert status.flags == ("used_CPU:locked",)


def test_a_writer_does_not_write_without_the_lock(tmp_path: Path) -> None:
    write(tmp_path, texts_of(RECORD), WAITING, NOW)
    with lock(tmp_path, fcntl.LOCK_SH), pytest.raises(CannotWriteStatusError, match="was locked"):
        write(tmp_path, texts_of({"used_CPU": 0}), IMPATIENT, NOW)
    assert read_now(tmp_path).by_key() == RECORD


def test_readers_share_the_lock(tmp_path: Path) -> None:
    write(tmp_path, texts_of(RECORD), WAITING, NOW)
    with lock(tmp_path, fcntl.LOCK_SH):
        assert read_now(tmp_path, IMPATIENT).flags == ()


@pytest.mark.parametrize(("age_s", "is_stale"), [(600, False), (601, True)])
def test_a_record_that_is_not_renewed_is_stale(tmp_path: Path, age_s: int, is_stale: bool) -> None:
    write(tmp_path, texts_of(RECORD), WAITING, NOW)
    for file in tmp_path.iterdir():
        os.utime(file, (1_000_000, 1_000_000))
    status = read(tmp_path, 1_000_000 + age_s, WAITING)
    assert status.stale is is_stale
    assert status.flags == (("record:stale",) if is_stale else ())


def test_a_missing_or_invalid_directory_is_flagged(tmp_path: Path) -> None:
    assert read_now(tmp_path / "none").flags == ("directory:missing",)
    (tmp_path / "file").write_text("6")
    assert read_now(tmp_path / "file").flags == ("directory:not-readable",)
    (tmp_path / "d").mkdir()
    assert read_now(tmp_path / "d") == JobStatus()


def test_only_small_regular_files_of_the_owner_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "used_CPU")
    (tmp_path / "priority_factor").symlink_to("/etc/hostname")
    (tmp_path / "add_uncom_time").write_text("1" * 65)
    assert read_now(tmp_path).flags == (
        "add_uncom_time:too-long",
        "priority_factor:link",
        "used_CPU:not-a-regular-file",
    )
    (tmp_path / "last_job_start").write_text("5")
    foreign = read(tmp_path, time.time(), WAITING, owners={os.getuid() + 1})
    assert "last_job_start:wrong-owner" in foreign.flags


def test_a_missing_directory_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(CannotWriteStatusError, match="no such directory"):
        write(tmp_path / "none", texts_of(RECORD), WAITING, NOW)


def test_a_link_in_place_of_the_lock_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "used_CPU").symlink_to(victim)
    with pytest.raises(CannotWriteStatusError):
        write(tmp_path / "d", texts_of(RECORD), WAITING, NOW)
    assert victim.read_text() == "precious"

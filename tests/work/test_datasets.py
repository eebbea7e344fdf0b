from __future__ import annotations

import pytest

from broker.work.input_files import DatasetUse, is_container, parse_attributes, scope_and_name


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (None, DatasetUse()),
        ("", DatasetUse()),
        ("nosplit", DatasetUse(nosplit=True)),
        ("nosplit,repeat", DatasetUse(nosplit=True, repeat=True)),
        (" ru , np=3 ", DatasetUse(reusable=True, files_per_job=3)),
        ("reusable,nFilesPerJob=2", DatasetUse(reusable=True, files_per_job=2)),
        ("er=2.5", DatasetUse(event_ratio=2.5)),
        ("ratio=0.25", DatasetUse(ratio=0.25)),
        ("ps", DatasetUse(pseudo=True)),
        ("pseudo", DatasetUse(pseudo=True)),
        ("np=0", DatasetUse()),
        ("np=2,np=5", DatasetUse(files_per_job=2)),
        ("np=two", DatasetUse(malformed=("np=two",))),
        ("ratio=-1", DatasetUse(malformed=("ratio=-1",))),
        ("ratio=0", DatasetUse()),
        ("st=disk,manytime", DatasetUse()),
    ],
)
def test_attributes(attributes: str | None, expected: DatasetUse) -> None:
    assert parse_attributes(attributes, "mc:x", "input") == expected


@pytest.mark.parametrize(
    ("name", "type_", "pseudo", "per_job"),
    [
        ("seq_number", "input", True, 1),
        ("pseudo_dataset", "pseudo_input", True, None),
        ("mc:x", "pp_input", True, None),
        ("mc:x", "pseudo_input", True, None),
        ("mc:seq_number_x", "input", False, None),
        (None, "input", False, None),
    ],
)
def test_pseudo_datasets(name: str | None, type_: str, pseudo: bool, per_job: int | None) -> None:
    use = parse_attributes(None, name, type_)
    assert (use.pseudo, use.files_per_job) == (pseudo, per_job)


@pytest.mark.parametrize(
    ("use", "splits"),
    [
        (DatasetUse(), True),
        (DatasetUse(nosplit=True), True),
        (DatasetUse(repeat=True), True),
        (DatasetUse(nosplit=True, repeat=True), False),
        (DatasetUse(reusable=True), False),
    ],
)
def test_secondaries_split_by_ramcount(use: DatasetUse, splits: bool) -> None:
    assert use.splits_by_ramcount is splits


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mc23:mc23.1.AOD", ("mc23", "mc23.1.AOD")),
        ("mc23.1.AOD", ("mc23", "mc23.1.AOD")),
        ("user.alice.test.x", ("user.alice", "user.alice.test.x")),
        ("group.higgs.x/", ("group.higgs", "group.higgs.x")),
        ("mc23:mc23.1.AOD/", ("mc23", "mc23.1.AOD")),
        ("user", ("user", "user")),
        ("a:b:c", ("a", "b:c")),
        (None, ("", "")),
    ],
)
def test_scope_and_name(name: str | None, expected: tuple[str, str]) -> None:
    assert scope_and_name(name) == expected


def test_a_container_ends_with_a_slash() -> None:
    assert is_container("mc:x/")
    assert not is_container("mc:x")
    assert not is_container(None)

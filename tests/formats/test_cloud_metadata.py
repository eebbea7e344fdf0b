from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.formats.model.cloud_metadata import (
    MAX_DOCUMENT_BYTES,
    CannotKeepMetadataError,
    Discovered,
    discover,
    machine_id,
)
from broker.formats.model.feature_http import Fetched, fetch_all
from tests.formats.feature_server import FeatureServer


def ask(addresses: Sequence[str]) -> dict[str, Fetched]:
    return fetch_all(addresses, time.monotonic, max_bytes=MAX_DOCUMENT_BYTES)


def found(address: str, kept: Path, machine: str = "vm-1") -> Discovered:
    return discover(address, kept, machine, ask)


def test_the_two_keys_are_asked_for_once_in_the_life_of_a_machine(server: FeatureServer, tmp_path: Path) -> None:
    server.file("/latest/meta-data/machinefeatures", "http://site/m\n")
    server.file("/latest/meta-data/jobfeatures", "http://site/j")
    kept = tmp_path / "state" / "kept.json"
    told = Discovered("http://site/m", "http://site/j")
    assert found(f"{server.base}/latest/meta-data/", kept) == told
    assert sorted(server.asked) == ["/latest/meta-data/jobfeatures", "/latest/meta-data/machinefeatures"]
    server.answers.clear()
    assert found(f"{server.base}/latest/meta-data/", kept) == told
    assert len(server.asked) == 2


def test_a_cloud_that_does_not_set_them_is_asked_once_as_well(server: FeatureServer, tmp_path: Path) -> None:
    assert found(server.base, tmp_path / "kept") == Discovered()
    assert found(server.base, tmp_path / "kept") == Discovered()
    assert len(server.asked) == 2


def test_no_answer_is_not_kept(server: FeatureServer, tmp_path: Path) -> None:
    server.file("/machinefeatures", "http://site/m")
    server.file("/jobfeatures", "", 503)
    assert found(server.base, tmp_path / "kept") == Discovered(problems=("cloud-metadata:no-answer",))
    server.file("/jobfeatures", "http://site/j")
    assert found(server.base, tmp_path / "kept") == Discovered("http://site/m", "http://site/j")


def test_processes_of_one_machine_ask_once_between_them(server: FeatureServer, tmp_path: Path) -> None:
    server.file("/machinefeatures", "http://site/m")
    results: list[Discovered] = []
    readers = [threading.Thread(target=lambda: results.append(found(server.base, tmp_path / "kept"))) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert results == [Discovered("http://site/m")] * 8
    assert len(server.asked) == 2


def test_what_a_disk_image_brought_from_another_machine_does_not_count(server: FeatureServer, tmp_path: Path) -> None:
    server.file("/machinefeatures", "http://site/old")
    found(server.base, tmp_path / "kept", "vm-1")
    server.file("/machinefeatures", "http://site/new")
    assert found(server.base, tmp_path / "kept", "vm-2").machinefeatures == "http://site/new"
    assert found(server.base, tmp_path / "kept", "vm-2").machinefeatures == "http://site/new"
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"uuid": "u", "meta": {"machinefeatures": "http://s/m", "jobfeatures": "/j"}}, Discovered("http://s/m", "/j")),
        ({"machinefeatures": "http://s/m"}, Discovered("http://s/m")),
        ({"uuid": "u"}, Discovered()),
        ({"meta": {"jobfeatures": 1}}, Discovered(problems=("cloud-metadata.jobfeatures:not-text",))),
        ({"meta": 1}, Discovered(problems=("cloud-metadata:not-json",))),
        ([], Discovered(problems=("cloud-metadata:not-json",))),
        ({"x": "y" * MAX_DOCUMENT_BYTES}, Discovered(problems=("cloud-metadata:too-long",))),
    ],
)
def test_one_document_with_all_metadata(
    server: FeatureServer, tmp_path: Path, document: object, told: Discovered
) -> None:
    server.file("/openstack/latest/meta_data.json", json.dumps(document))
    assert found(f"{server.base}/openstack/latest/meta_data.json", tmp_path / "kept") == told


@pytest.mark.parametrize("address", ["file:///etc", "/etc", "meta", "http://user@host/x"])
def test_addresses_that_are_refused(tmp_path: Path, address: str) -> None:
    assert found(address, tmp_path / "kept") == Discovered(problems=("cloud-metadata:refused",))


@pytest.mark.parametrize("text", ["no json", "[]", '{"machine": 1}', '{"machine": "vm-1", "jobfeatures": 1}'])
def test_a_kept_file_that_is_none_is_told_and_nobody_is_asked(server: FeatureServer, tmp_path: Path, text: str) -> None:
    (tmp_path / "kept").write_text(text, encoding="utf-8")
    assert found(server.base, tmp_path / "kept").problems == ("cloud-metadata:kept-file-unusable",)
    assert server.asked == []


def test_what_cannot_be_kept_is_not_asked_for(server: FeatureServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for kept in (tmp_path / "file" / "kept", tmp_path / "link"):
        with pytest.raises(CannotKeepMetadataError):
            found(server.base, kept)
    assert server.asked == []


def test_the_name_of_a_machine(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("abc\n", encoding="ascii")
    assert (machine_id(tmp_path / "id"), machine_id(tmp_path / "none")) == ("abc", "")

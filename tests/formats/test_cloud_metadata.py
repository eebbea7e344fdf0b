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
from broker.formats.model.feature_http import KeyResponse, fetch_all
from tests.formats.feature_server import FeatureServer


def fetch_metadata(addresses: Sequence[str]) -> dict[str, KeyResponse]:
    return fetch_all(addresses, time.monotonic, max_bytes=MAX_DOCUMENT_BYTES)


def discover_once(address: str, cache: Path, machine: str = "vm-1") -> Discovered:
    return discover(address, cache, machine, fetch_metadata)


def test_the_two_keys_are_requested_once_in_the_life_of_a_machine(server: FeatureServer, tmp_path: Path) -> None:
    server.file("/latest/meta-data/machinefeatures", "http://site/m\n")
    server.file("/latest/meta-data/jobfeatures", "http://site/j")
    cache = tmp_path / "state" / "kept.json"
    expected = Discovered("http://site/m", "http://site/j")
    assert discover_once(f"{server.base}/latest/meta-data/", cache) == expected
    assert sorted(server.requests) == ["/latest/meta-data/jobfeatures", "/latest/meta-data/machinefeatures"]
    server.answers.clear()
    assert discover_once(f"{server.base}/latest/meta-data/", cache) == expected
    assert len(server.requests) == 2


def test_a_cloud_without_the_keys_is_also_asked_once(server: FeatureServer, tmp_path: Path) -> None:
    assert discover_once(server.base, tmp_path / "kept") == Discovered()
    assert discover_once(server.base, tmp_path / "kept") == Discovered()
    assert len(server.requests) == 2


def test_a_missing_answer_is_not_cached(server: FeatureServer, tmp_path: Path) -> None:
    server.file("/machinefeatures", "http://site/m")
    server.file("/jobfeatures", "", 503)
    assert discover_once(server.base, tmp_path / "kept") == Discovered(problems=("cloud-metadata:no-answer",))
    server.file("/jobfeatures", "http://site/j")
    assert discover_once(server.base, tmp_path / "kept") == Discovered("http://site/m", "http://site/j")


def test_processes_of_a_machine_send_one_request_together(server: FeatureServer, tmp_path: Path) -> None:
    server.file("/machinefeatures", "http://site/m")
    results: list[Discovered] = []
    readers = [
        threading.Thread(target=lambda: results.append(discover_once(server.base, tmp_path / "kept"))) for _ in range(8)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert results == [Discovered("http://site/m")] * 8
    assert len(server.requests) == 2


def test_a_cache_of_another_machine_in_a_disk_image_is_ignored(server: FeatureServer, tmp_path: Path) -> None:
    server.file("/machinefeatures", "http://site/old")
    discover_once(server.base, tmp_path / "kept", "vm-1")
    server.file("/machinefeatures", "http://site/new")
    assert discover_once(server.base, tmp_path / "kept", "vm-2").machinefeatures == "http://site/new"
    assert discover_once(server.base, tmp_path / "kept", "vm-2").machinefeatures == "http://site/new"
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("document", "expected"),
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
    server: FeatureServer, tmp_path: Path, document: object, expected: Discovered
) -> None:
    server.file("/openstack/latest/meta_data.json", json.dumps(document))
    assert discover_once(f"{server.base}/openstack/latest/meta_data.json", tmp_path / "kept") == expected


@pytest.mark.parametrize("address", ["file:///etc", "/etc", "meta", "http://user@host/x"])
def test_invalid_addresses_are_refused(tmp_path: Path, address: str) -> None:
    assert discover_once(address, tmp_path / "kept") == Discovered(problems=("cloud-metadata:refused",))


@pytest.mark.parametrize("text", ["no json", "[]", '{"machine": 1}', '{"machine": "vm-1", "jobfeatures": 1}'])
def test_an_invalid_cache_is_reported_and_no_request_is_sent(server: FeatureServer, tmp_path: Path, text: str) -> None:
    (tmp_path / "kept").write_text(text, encoding="utf-8")
    assert discover_once(server.base, tmp_path / "kept").problems == ("cloud-metadata:kept-file-unusable",)
    assert server.requests == []


def test_no_request_is_sent_where_the_cache_cannot_be_written(server: FeatureServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for cache in (tmp_path / "file" / "kept", tmp_path / "link"):
        with pytest.raises(CannotKeepMetadataError):
            discover_once(server.base, cache)
    assert server.requests == []


def test_the_id_of_a_machine(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("abc\n", encoding="ascii")
    assert (machine_id(tmp_path / "id"), machine_id(tmp_path / "none")) == ("abc", "")

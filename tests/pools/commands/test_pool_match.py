"""``broker pool match``: verdicts, exit statuses, and what is told of wrong files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import Command, Outcome, runner
from tests.matching.specs.documents_of_tests import GPUS, NODE_V02, REMOVED, alone, job, node


@pytest.fixture
def broker(capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys)


def match(broker: Command, folder: Path, asked: Any, has: Any, *more: str) -> Outcome:
    files = []
    for name, document in (("job.yaml", asked), ("node.yaml", has)):
        (folder / name).write_text(document if isinstance(document, str) else yaml.safe_dump(document))
        files.append(str(folder / name))
    return broker("pool", "match", *files, *more)


def test_a_match_is_told_in_exactly_one_form(broker: Command, tmp_path: Path) -> None:
    for profile in ("v0.1", "v0.2", "own"):
        found = match(broker, tmp_path, job({"site": "S.Two"}, {}), node(), "--profile", profile, "--json")
        assert (found.status, found.out) == (0, '{"match": true, "spec": 1, "missed": []}\n')


def test_no_match_is_an_answer(broker: Command, tmp_path: Path) -> None:
    found = match(broker, tmp_path, job({"wall-time": 172_801}), node(), "--profile", "v0.1", "--json")
    missed = [{"spec": 0, "field": "wall-time", "kind": "below", "asked": 172_801, "offered": 172_800}]
    assert (found.status, found.document) == (0, {"match": False, "spec": None, "missed": missed})


def test_the_profile_is_v02_where_none_is_named(broker: Command, tmp_path: Path) -> None:
    has = node({"gpu": GPUS})
    assert not match(broker, tmp_path, job(), has, "--json").document["match"]
    assert match(broker, tmp_path, job(), has, "--profile", "v0.1", "--json").document["match"]
    assert match(broker, tmp_path, alone(), NODE_V02, "--json").document["match"]


def test_arm64_is_another_architecture_when_asked(broker: Command, tmp_path: Path) -> None:
    asked, has = job({"cpu.architecture.name": "arm64"}), node({"cpu.architecture.name": "aarch64"})
    assert match(broker, tmp_path, asked, has, "--json").document["match"]
    assert not match(broker, tmp_path, asked, has, "--distinct-arm", "--json").document["match"]


@pytest.mark.parametrize(
    ("asked", "has", "field", "value"),
    [
        (job({"cpu.num-cores": {"min": 8, "max": 2}}), node(), "cpu.num-cores.max", "2:"),
        (job(), node({"cpu.num-cores": -4}), "cpu.num-cores", "-4:"),
        ({**job(), "matching_specs": []}, node(), "matching_specs", "[]"),
        (job(), "a: [", "node.yaml", "no YAML"),
        ("", node(), "matching_specs", "missing"),
    ],
)
def test_a_wrong_file_ends_with_field_and_value(
    broker: Command, tmp_path: Path, asked: Any, has: Any, field: str, value: str
) -> None:
    found = match(broker, tmp_path, asked, has, "--json")
    error = found.document["error"]
    assert (found.status, error["code"]) == (2, "wrong_use")
    assert field in error["where"] and value in error["what"]


def test_all_that_is_wrong_with_a_file_is_told_at_once(broker: Command, tmp_path: Path) -> None:
    has = node({"cpu.num-cores": -4, "system.user-namespaces": REMOVED, "gpu": {"count": 1}})
    error = match(broker, tmp_path, job(), has, "--profile", "v0.1", "--json").document["error"]
    for part in ("system.user-namespaces: is missing", "cpu.num-cores: -4: ", "gpu.ram-mb: is missing"):
        assert part in error["what"]
    asked = job({"cpu.num-cores": {"min": 8, "max": 2}, "wall-time": 0}, {"tags": "a |"}) | {"type": "Other"}
    found = match(broker, tmp_path, asked, node(), "--profile", "v0.1")
    assert found.status == 2
    for part in ("type: 'Other'", "[0].wall-time: 0", "[0].cpu.num-cores.max: 2", "[1].tags: 'a |'"):
        assert part in found.err


def test_a_file_or_a_profile_that_is_not_there(broker: Command, tmp_path: Path) -> None:
    assert broker("pool", "match", str(tmp_path / "no.yaml"), str(tmp_path / "no.yaml")).status == 2
    found = match(broker, tmp_path, job(), node(), "--profile", "v1")
    assert found.status == 2 and "v0.1" in found.err


def test_what_a_job_gets_is_shown(broker: Command, tmp_path: Path) -> None:
    found = match(broker, tmp_path, job({"cpu.num-cores": {"min": 1, "max": 4}}), node())
    assert found.status == 0 and found.out.splitlines()[0] == "match by spec 0" and "4" in found.out.splitlines()[2]
    found = match(broker, tmp_path, job({"tags": "a"}), node())
    assert found.status == 0 and "no match" in found.out and "tags" in found.out


def test_json_is_read_too(broker: Command, tmp_path: Path) -> None:
    for name, document in (("job.json", job()), ("node.json", node())):
        (tmp_path / name).write_text(json.dumps(document))
    found = broker("pool", "match", str(tmp_path / "job.json"), str(tmp_path / "node.json"), "--json")
    assert found.document["match"]

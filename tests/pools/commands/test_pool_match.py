"""``broker pool match``: verdicts, exit statuses, and messages about invalid files."""

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


def match(broker: Command, folder: Path, job_document: Any, node_document: Any, *options: str) -> Outcome:
    files = []
    for name, document in (("job.yaml", job_document), ("node.yaml", node_document)):
        (folder / name).write_text(document if isinstance(document, str) else yaml.safe_dump(document))
        files.append(str(folder / name))
    return broker("pool", "match", *files, *options)


def test_a_match_is_printed_as_one_exact_document(broker: Command, tmp_path: Path) -> None:
    for profile in ("v0.1", "v0.2", "own"):
        outcome = match(broker, tmp_path, job({"site": "S.Two"}, {}), node(), "--profile", profile, "--json")
        assert (outcome.status, outcome.out) == (0, '{"match": true, "spec": 1, "missed": []}\n')


def test_no_match_is_an_answer(broker: Command, tmp_path: Path) -> None:
    outcome = match(broker, tmp_path, job({"wall-time": 172_801}), node(), "--profile", "v0.1", "--json")
    misses = [{"spec": 0, "field": "wall-time", "kind": "below", "asked": 172_801, "offered": 172_800}]
    assert (outcome.status, outcome.document) == (0, {"match": False, "spec": None, "missed": misses})


def test_the_default_profile_is_v02(broker: Command, tmp_path: Path) -> None:
    node_document = node({"gpu": GPUS})
    assert not match(broker, tmp_path, job(), node_document, "--json").document["match"]
    assert match(broker, tmp_path, job(), node_document, "--profile", "v0.1", "--json").document["match"]
    assert match(broker, tmp_path, alone(), NODE_V02, "--json").document["match"]


def test_arm64_is_another_architecture_with_the_option(broker: Command, tmp_path: Path) -> None:
    job_document, node_document = job({"cpu.architecture.name": "arm64"}), node({"cpu.architecture.name": "aarch64"})
    assert match(broker, tmp_path, job_document, node_document, "--json").document["match"]
    assert not match(broker, tmp_path, job_document, node_document, "--distinct-arm", "--json").document["match"]


@pytest.mark.parametrize(
    ("job_document", "node_document", "field", "value"),
    [
        (job({"cpu.num-cores": {"min": 8, "max": 2}}), node(), "cpu.num-cores.max", "2:"),
        (job(), node({"cpu.num-cores": -4}), "cpu.num-cores", "-4:"),
        ({**job(), "matching_specs": []}, node(), "matching_specs", "[]"),
        (job(), "a: [", "node.yaml", "no YAML"),
        ("", node(), "matching_specs", "missing"),
    ],
)
def test_an_invalid_file_is_refused_with_field_and_value(
    broker: Command, tmp_path: Path, job_document: Any, node_document: Any, field: str, value: str
) -> None:
    outcome = match(broker, tmp_path, job_document, node_document, "--json")
    error = outcome.document["error"]
    assert (outcome.status, error["code"]) == (2, "wrong_use")
    assert field in error["where"] and value in error["what"]


def test_all_errors_of_a_file_are_reported_at_once(broker: Command, tmp_path: Path) -> None:
    node_document = node({"cpu.num-cores": -4, "system.user-namespaces": REMOVED, "gpu": {"count": 1}})
    error = match(broker, tmp_path, job(), node_document, "--profile", "v0.1", "--json").document["error"]
    for part in ("system.user-namespaces: is missing", "cpu.num-cores: -4: ", "gpu.ram-mb: is missing"):
        assert part in error["what"]
    job_document = job({"cpu.num-cores": {"min": 8, "max": 2}, "wall-time": 0}, {"tags": "a |"}) | {"type": "Other"}
    outcome = match(broker, tmp_path, job_document, node(), "--profile", "v0.1")
    assert outcome.status == 2
    for part in ("type: 'Other'", "[0].wall-time: 0", "[0].cpu.num-cores.max: 2", "[1].tags: 'a |'"):
        assert part in outcome.err


def test_a_missing_file_or_an_unknown_profile_is_refused(broker: Command, tmp_path: Path) -> None:
    assert broker("pool", "match", str(tmp_path / "no.yaml"), str(tmp_path / "no.yaml")).status == 2
    outcome = match(broker, tmp_path, job(), node(), "--profile", "v1")
    assert outcome.status == 2 and "v0.1" in outcome.err


def test_the_allotment_of_a_job_is_shown(broker: Command, tmp_path: Path) -> None:
    outcome = match(broker, tmp_path, job({"cpu.num-cores": {"min": 1, "max": 4}}), node())
    assert (
        outcome.status == 0 and outcome.out.splitlines()[0] == "match by spec 0" and "4" in outcome.out.splitlines()[2]
    )
    outcome = match(broker, tmp_path, job({"tags": "a"}), node())
    assert outcome.status == 0 and "no match" in outcome.out and "tags" in outcome.out


def test_json_files_are_also_read(broker: Command, tmp_path: Path) -> None:
    for name, document in (("job.json", job()), ("node.json", node())):
        (tmp_path / name).write_text(json.dumps(document))
    outcome = broker("pool", "match", str(tmp_path / "job.json"), str(tmp_path / "node.json"), "--json")
    assert outcome.document["match"]

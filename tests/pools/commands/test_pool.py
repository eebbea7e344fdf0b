"""``broker pool hash`` and ``check``: their output, their refusals, and nothing else on stdout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Command, Outcome, runner

DATA = json.loads((Path(__file__).parents[2] / "contract" / "submit_pool.json").read_text(encoding="utf-8"))
RFC = """[
Executable = "my_executable";
Requirements = [
 SoftwareTag = { "AppVersion1","AppVersion2" };
 CPUModel = "Intel Xeon";
 Memory = 4000;
]
]"""
RFC_POOL = "sp1-669cabb1c0bad44ced66ed0252f6b52e"


@pytest.fixture
def broker(capsys: pytest.CaptureFixture[str]) -> Command:
    return runner(capsys)


@pytest.fixture
def grid(tmp_path: Path) -> str:
    path = tmp_path / "grid.json"
    path.write_text(json.dumps({"declared_types": DATA["declared"], "resources": DATA["resources"]}), encoding="utf-8")
    return str(path)


def check(broker: Command, folder: Path, name: str, text: str, vo: str, *options: str) -> Outcome:
    (folder / name).write_text(text, encoding="utf-8")
    return broker("pool", "check", str(folder / name), "--vo", vo, *options, "--json")


def expected(case: dict[str, Any]) -> dict[str, Any]:
    return {
        "pool": case["pool"],
        "canonical": case["canonical"],
        "eligible": case["eligible"],
        "rejected": case.get("why_not", {}),
    }


def test_every_case_of_the_requirements_file(broker: Command, grid: str, tmp_path: Path) -> None:
    for case in DATA["requirements"]:
        outcome = check(broker, tmp_path, "job.json", json.dumps(case["requires"]), case["vo"], "--resources", grid)
        if "refused" in case:
            error = outcome.document["error"]
            names_a_requirement = any(f", {name}" in error["where"] for name in case["requires"])
            assert (outcome.status, error["code"], names_a_requirement) == (2, "wrong_use", True), case["case"]
            assert error["what"].startswith(f"{case['refused']}: ")
        elif "eligible" in case:
            assert (outcome.status, outcome.document) == (0, expected(case)), case["case"]
        else:
            assert outcome.document["pool"] == case["pool"]


def test_the_format_is_detected_by_name_or_content(broker: Command, grid: str, tmp_path: Path) -> None:
    case = DATA["requirements"][0]
    cfg = "Requirements\n{\n SoftwareTag = AppVersion2, AppVersion1\n CPUModel = Intel Xeon\n Memory = 4000\n}\n"
    (tmp_path / "sites").write_text(json.dumps(DATA["resources"]), encoding="utf-8")
    for name, text in (("job.jdl", RFC), ("job", RFC), ("job.cfg", cfg), ("job.txt", cfg)):
        for resources in (grid, str(tmp_path / "sites")):
            outcome = check(broker, tmp_path, name, text, "LHCb", "--resources", resources)
            assert (outcome.status, outcome.document) == (0, expected(case)), name
        assert broker("pool", "hash", str(tmp_path / name), "--vo", "lhcb").out == RFC_POOL + "\n"


def test_without_requirements_there_is_no_pool(broker: Command, grid: str, tmp_path: Path) -> None:
    for name, text in (("a.json", "{}"), ("a.jdl", "[ A = 1; ]"), ("b.jdl", "[ Requirements = []; ]"), ("a.cfg", "")):
        outcome = check(broker, tmp_path, name, text, "lhcb", "--resources", grid)
        assert outcome.document == {"pool": None, "canonical": None, "eligible": None, "rejected": {}}
        outcome_of_hash = broker("pool", "hash", str(tmp_path / name), "--vo", "lhcb")
        assert (outcome_of_hash.status, outcome_of_hash.out, outcome_of_hash.err) == (
            0,
            "",
            "no requirements: no pool\n",
        )
        document = broker("pool", "hash", str(tmp_path / name), "--vo", "lhcb", "--json").document
        assert document == {"pool": None, "canonical": None}


@pytest.mark.parametrize(
    ("name", "text", "message_start"),
    [
        ("a.jdl", "[ Requirements = [\n Memory = 4GB; ] ]", "expression-not-supported: ", ),
        ("a.cfg", "Requirements\n{\n  Memory =\n}", "missing-value: "),
        ("a.jdl", '[ Requirements = [\n Memory = "x"; ] ]', "not-a-number: "),
        ("a.json", '{"Site": "CERN"}', "standard-keyword: "),
    ],
)  # fmt: skip
def test_a_refusal_has_a_name_and_a_place(
    broker: Command, grid: str, tmp_path: Path, name: str, text: str, message_start: str
) -> None:
    outcome = check(broker, tmp_path, name, text, "lhcb", "--resources", grid)
    error = outcome.document["error"]
    assert outcome.status == 2 and "error:" not in outcome.err
    assert error["what"].startswith(message_start)
    assert ("line " in error["where"]) == (name != "a.json")
    assert "Memory" in error["where"] or "Site" in error["where"]


def test_invalid_files_are_refused(broker: Command, tmp_path: Path) -> None:
    job = tmp_path / "job.jdl"
    job.write_bytes(b'[\n A = "\xff"; ]')
    assert "not-utf-8: a byte that is no text" in broker("pool", "hash", str(job), "--vo", "lhcb").err
    job.write_bytes(b" " * 65_537)
    assert "text-too-large" in broker("pool", "hash", str(job), "--vo", "lhcb").err
    job.write_bytes(b"\xef\xbb\xbf[ Requirements = [ A = 1; ] ]")
    assert broker("pool", "hash", str(job), "--vo", "lhcb").status == 0
    assert broker("pool", "hash", str(job), "--vo", "no vo").status == 2
    assert broker("pool", "hash", str(tmp_path / "none"), "--vo", "lhcb").status == 2
    assert broker("pool", "hash", str(tmp_path), "--vo", "lhcb").status == 2
    sites = tmp_path / "sites.json"
    sites.write_text('{"S": {"cees": {}}}', encoding="utf-8")
    outcome = broker("pool", "check", str(job), "--vo", "lhcb", "--resources", str(sites))
    assert (outcome.status, "S/cees: means nothing here" in outcome.err) == (2, True)


def test_operators_and_users_are_told_what_looks_wrong(broker: Command, grid: str, tmp_path: Path) -> None:
    outcome = check(broker, tmp_path, "a.json", '{"softwaretag": "x"}', "lhcb", "--resources", grid)
    assert "no resource defines softwaretag; did you mean SoftwareTag?" in outcome.err
    assert "resources: LCG.Gamma.org/Memory: '4GB' is not a number" in outcome.err
    (tmp_path / "none.json").write_text("{}", encoding="utf-8")
    outcome = check(broker, tmp_path, "a.json", '{"A": "x"}', "lhcb", "--resources", str(tmp_path / "none.json"))
    assert outcome.document["eligible"] == []
    assert "resources: there is no queue in them" in outcome.err


def test_the_output_as_text(broker: Command, grid: str, tmp_path: Path) -> None:
    (tmp_path / "job.jdl").write_text(RFC, encoding="utf-8")
    text = broker("pool", "check", str(tmp_path / "job.jdl"), "--vo", "lhcb", "--resources", grid).out
    assert RFC_POOL in text
    assert "AppVersion1, AppVersion2" in text
    assert "no-common-value:CPUModel" in text
    document = broker("pool", "hash", str(tmp_path / "job.jdl"), "--vo", "lhcb", "--json").document
    assert document == {"pool": RFC_POOL, "canonical": DATA["requirements"][0]["canonical"]}

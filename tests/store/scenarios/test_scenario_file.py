from __future__ import annotations

import gzip
import json
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.store.scenarios import scenario_file
from broker.store.scenarios.scenario_file import BadScenario, Scenario, read_scenario, write_scenario

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)
GOOD = {"now": "2026-08-01T12:00:00", "tables": {"site": [{"site_name": "S"}]}}


@pytest.mark.parametrize("name", ["s.json", "s.json.gz"])
def test_a_file_is_read_back_unchanged(tmp_path: Path, name: str) -> None:
    scenario = Scenario(NOON, {"site": [{"site_name": 'Zürich\n\u202e"', "x": 1.5}], "empty": []})
    path = tmp_path / name
    write_scenario(path, scenario)
    assert read_scenario(path) == scenario
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_the_same_scenario_gives_the_same_bytes(tmp_path: Path) -> None:
    scenario = Scenario.of(GOOD)
    for name in ("a.json.gz", "b.json.gz"):
        write_scenario(tmp_path / name, scenario)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


@pytest.mark.slow
@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=5),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(st.characters(codec="utf-8")),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
            ),
            max_leaves=5,
        ),
        max_size=4,
    )
)
def test_any_row_survives_a_file(tmp_path_factory: pytest.TempPathFactory, row: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("scenario") / "s.json"
    scenario = Scenario(NOON, {"site": [row]})
    write_scenario(path, scenario)
    assert read_scenario(path) == scenario


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-08-01T12:00:00", NOON),
        ("2026-08-01T12:00:00Z", NOON),
        ("2026-08-01T14:00:00+02:00", NOON),
    ],
)
def test_now_is_utc(now: str, expected: datetime) -> None:
    assert Scenario.of({**GOOD, "now": now}).now == expected


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "not a scenario"),
        ({"tables": {}}, "not a scenario"),
        ({**GOOD, "more": 1}, "not a scenario"),
        ({**GOOD, "now": "soon"}, "ISO 8601"),
        ({**GOOD, "now": None}, "ISO 8601"),
        ({**GOOD, "tables": []}, "not an object"),
        ({**GOOD, "tables": {"site": {}}}, "'site' is not a list"),
        ({**GOOD, "tables": {"site": [{}, 5]}}, "table site, row 2"),
    ],
)
def test_documents_of_another_shape_are_rejected(document: Any, reason: str) -> None:
    with pytest.raises(BadScenario, match=reason):
        Scenario.of(document)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ('{"now": ', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"now": "2026-08-01", "tables": {"site": [{"x": NaN}]}}', "NaN is not JSON"),
        ('{"now": "2026-08-01", "tables": {"site": [{"x": -Infinity}]}}', "-Infinity is not JSON"),
        ('{"now": "2026-08-01", "tables": {"site": [{"x": 1e400}]}}', "out of range"),
        ('{"now": "2026-08-01", "tables": {"site": [], "site": []}}', "'site' stands twice"),
        ('{"now": "2026-08-01", "tables": {"site": [{"x": 1, "x": 2}]}}', "'x' stands twice"),
    ],
)
def test_hostile_json_is_rejected_with_the_file_name(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(BadScenario, match=reason) as caught:
        read_scenario(path)
    assert "bad.json" in str(caught.value)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadScenario, match="No such file"):
        read_scenario(tmp_path / "none.json")
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(json.dumps(GOOD).encode())[:-9])
    with pytest.raises(BadScenario, match="cannot read"):
        read_scenario(tmp_path / "cut.json.gz")
    (tmp_path / "plain.json.gz").write_text(json.dumps(GOOD))
    with pytest.raises(BadScenario, match="cannot read"):
        read_scenario(tmp_path / "plain.json.gz")
    with pytest.raises(BadScenario, match="cannot write"):
        write_scenario(tmp_path / "no" / "such" / "folder.json", Scenario.of(GOOD))


@pytest.mark.parametrize(("limit", "accepted"), [(1, True), (0, False)])
def test_a_decompression_bomb_is_rejected_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, accepted: bool
) -> None:
    data = json.dumps(GOOD).encode()
    path = tmp_path / "s.json.gz"
    path.write_bytes(gzip.compress(data))
    monkeypatch.setattr(scenario_file, "LARGEST_BYTES", len(data) - 1 + limit)
    if accepted:
        assert read_scenario(path) == Scenario.of(GOOD)
    else:
        with pytest.raises(BadScenario, match="larger than"):
            read_scenario(path)


@pytest.mark.parametrize("name", ["s.json", "s.json.gz"])
def test_the_limit_is_the_same_for_a_plain_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    data = json.dumps(GOOD).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    monkeypatch.setattr(scenario_file, "LARGEST_BYTES", len(data))
    assert read_scenario(path) == Scenario.of(GOOD)
    monkeypatch.setattr(scenario_file, "LARGEST_BYTES", len(data) - 1)
    with pytest.raises(BadScenario, match="larger than"):
        read_scenario(path)


@pytest.mark.slow
def test_a_file_that_unpacks_to_gigabytes_is_rejected_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "s.json.gz"
    # a gzip member of ten megabytes of blanks, repeated: a kilobyte of file holds a megabyte of text
    member = gzip.compress(b" " * 10_000_000)
    path.write_bytes(member * (scenario_file.LARGEST_BYTES // 10_000_000 + 1))
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(BadScenario, match="larger than 500,000,000 bytes when unpacked"):
            read_scenario(path)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 20_000_000

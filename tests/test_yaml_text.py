"""``read_yaml`` gives the values and errors of PyYAML's safe loader; deep nesting does not end the process."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from broker.yaml_text import read_yaml

CONFIG = Path(__file__).parents[1] / "config"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x: 12:30:45\ny: 0o17\nz: 017\nd: 2026-08-01\nt: 2026-08-01T11:50:00Z\nn: ~\nf: 1e3\ng: 1.0e+3\nb: yes",
        "a: &one [1, 2]\nb: *one\nc: {<<: {d: 1}, e: 2}",
        "a: 'it''s'\nb: \"\\u00e9\\n\"\nc: |\n  two\n  lines\nd: >-\n  one\n  line\n",
        "- é\n- 日本\n- !!set {a, b}\n- !!binary aGk=\n",
    ],
)
def test_values_match_the_safe_loader(text: str) -> None:
    assert read_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("path", sorted(CONFIG.rglob("*.yaml")), ids=lambda path: path.name)
def test_shipped_files_match_the_safe_loader(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert read_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: [1,",
        "a: b: c",
        "\t- a",
        "a:\tb",
        "[a,\tb]",
        "a: 'x",
        "a: *b",
        "a: \x00",
        "a: !!python/object:os.system x",
        "a: 1\n---\nb: 2",
    ],
)
def test_errors_match_the_safe_loader(text: str) -> None:
    with pytest.raises(yaml.YAMLError) as expected:
        yaml.safe_load(text)
    with pytest.raises(type(expected.value)) as error:
        read_yaml(text)
    assert str(error.value) == str(expected.value)


@pytest.mark.parametrize("opening", ["[", "- ", "{a: "])
def test_deep_nesting_is_an_error(opening: str) -> None:
    with pytest.raises(RecursionError):
        read_yaml(opening * 50_000)

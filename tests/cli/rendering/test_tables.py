from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from broker.cli.output import escaped, print_json, print_table, remark
from broker.cli.rendering.cells import cell_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("Zürich 100% [bold]x[/bold]", "Zürich 100% [bold]x[/bold]"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("abc\u202edef\u2066", "abc\\u202edef\\u2066"),
        ("\u2028", "\\u2028"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
        (None, ""),
        (5, "5"),
    ],
)
def test_hidden_characters_are_made_visible(text: object, expected: str) -> None:
    assert escaped(text) == expected


@given(st.text())
def test_printed_text_breaks_neither_the_line_nor_the_terminal(text: str) -> None:
    printed = escaped(text)
    assert len(printed.splitlines()) <= 1
    assert printed.encode().decode() == printed
    assert "\x1b" not in printed


def test_a_table_takes_names_literally_and_cuts_nothing() -> None:
    stream = io.StringIO()
    long_name = "x" * 120
    print_table(
        ("queue", "jobs"),
        [("[red]Q[/red]\x1b[2J", 5), (long_name, None), (":smile:", 1.23456789)],
        title="A title [b] that is longer than the table, which would be cut",
        stream=stream,
    )
    text = stream.getvalue()
    assert "[red]Q[/red]\\x1b[2J" in text
    assert long_name in text
    assert ":smile:" in text
    assert "1.23457" in text
    assert text.startswith("A title [b] that is longer than the table, which would be cut\n")


@pytest.mark.parametrize("rows", [1000, 1001])
def test_a_long_table_shows_every_row(rows: int) -> None:
    stream = io.StringIO()
    cells = [(number, "bad\nname" if number == 7 else "x", None, number / 3) for number in range(rows)]
    print_table(("number", "name", "nothing", "third"), cells, title="Many", stream=stream)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "Many"
    words = [line.split() for line in lines[1:]]
    assert ["number", "name", "nothing", "third"] in words
    assert ["7", "bad\\nname", "2.33333"] in words
    assert sum(1 for cells_of_line in words if cells_of_line and cells_of_line[0].isdigit()) == rows


def test_an_empty_table_prints_none() -> None:
    stream = io.StringIO()
    print_table(("a", "b"), [], stream=stream)
    print_table(("a", "b"), [], title="Candidates", stream=stream)
    assert stream.getvalue() == "none\nCandidates: none\n"


def test_json_is_one_line_and_supports_our_types() -> None:
    stream = io.StringIO()
    print_json(
        {
            "time": datetime(2026, 8, 1, tzinfo=UTC),
            "array": np.array([1.5, 2.0]),
            "number": np.int64(3),
            "whole": Decimal("4"),
            "part": Decimal("4.5"),
            "path": Path("a/b"),
            "set": {2, 1},
            "text": "a\n\u202e",
        },
        stream,
    )
    text = stream.getvalue()
    assert text.isascii()
    assert text.count("\n") == 1
    assert json.loads(text) == {
        "time": "2026-08-01T00:00:00Z",
        "array": [1.5, 2.0],
        "number": 3,
        "whole": 4,
        "part": 4.5,
        "path": "a/b",
        "set": [1, 2],
        "text": "a\n\u202e",
    }


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_infinity_and_nan_are_null_as_in_the_api(number: float) -> None:
    stream = io.StringIO()
    print_json({"x": number}, stream)
    assert json.loads(stream.getvalue()) == {"x": None}


def test_a_value_without_a_json_form_is_an_error() -> None:
    with pytest.raises(TypeError):
        print_json({"x": object()}, io.StringIO())


def test_remarks_go_to_stderr_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    remark("one\ntwo")
    assert capsys.readouterr() == ("", "one\\ntwo\n")


def test_a_large_figure_is_written_out() -> None:
    assert [cell_text(value) for value in (4_300_800.0, -1e6, 0.123456789, 999_999.5)] == [
        "4300800",
        "-1000000",
        "0.123457",
        "1000000",
    ]

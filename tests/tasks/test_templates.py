"""Command lines of jobs: placeholders, slices, formulae, and the compact form of several names."""

from __future__ import annotations

import pytest

from broker.tasks.model.expansion import CannotExpand, JobValues, compact, expand
from broker.tasks.model.formula import BadFormula, parse_formula
from broker.tasks.model.placeholders import parse_template
from broker.tasks.model.values import BadParameter

VALUES = JobValues(
    {"IN": ["a._0002.root.1", "a._0001.root.2"], "SEQNUMBER": ["7"], "ONE": ["b"]},
    {"IN": "mc:box/"},
    {"OUTPUT0": "out.root"},
    {"SN": 3, "SEQNUMBER": 7, "MAXEVENTS": -1},
    {"SURL": "https://cache"},
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("-i ${IN}", "-i a._000[1,2].root"),
        ("${IN/L}", "a._0001.root.2,a._0002.root.1"),
        ("${IN/L/A}", "'a._0001.root.2','a._0002.root.1'"),
        ("${IN/L/S}", "a._0001.root.2 a._0002.root.1"),
        ("${IN/T}", "['a._0001.root.2', 'a._0002.root.1']"),
        ("${IN/F}", "tmpin_box"),
        ("${IN[0]}", "a._0001.root.2"),
        ("${IN[-1]}", "a._0002.root.1"),
        ("${IN[1:]/L}", "a._0002.root.1"),
        ("${IN[0:2:2]}", "a._0001.root.2"),
        ("${ONE} ${ONE/T}", "b ['b']"),
        ("${SN} ${SN/P} ${SN:04d} ${SN/M[#*100+1]}", "3 000003 0003 301"),
        ("${SEQNUMBER/M[(#-1)%5//2]} ${MAXEVENTS}", "0 -1"),
        ("${OUTPUT0} ${SURL} $PLAIN {x}", "out.root https://cache $PLAIN {x}"),
    ],
)
def test_a_template_is_filled(text: str, expected: str) -> None:
    assert expand(parse_template("f", text), VALUES) == expected


@pytest.mark.parametrize("text", ["${IN[2]}", "${IN[5:]}", "${OUTPUT1}", "${SN/M[1//(#-3)]}", "${ONE/M[#]}"])
def test_a_value_that_a_job_lacks_is_an_error_and_not_an_empty_text(text: str) -> None:
    with pytest.raises(CannotExpand):
        expand(parse_template("f", text), VALUES)


@pytest.mark.parametrize(
    "text",
    ["${", "${in}", "${IN/Q}", "${IN[a]}", "${IN[]}", "${IN[0:1:0]}", "${SN[0]}", "${SN/L}", "${IN[0}", "${SN:4x}"],
)
def test_an_invalid_placeholder_is_refused(text: str) -> None:
    with pytest.raises(BadParameter):
        parse_template("f", text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "N",
        "#**9",
        "#.real",
        "1.5",
        "'a'",
        "#/2",
        "",
        "# #",
        "(",
        "#" * 201,
        "10**19",
        "-" * 150 + "x",
    ],
)
def test_a_formula_is_parsed_and_never_evaluated_as_code(text: str) -> None:
    with pytest.raises(BadFormula):
        parse_formula(text)


@pytest.mark.parametrize(("text", "number"), [("1//#", 0), ("#%#", 0), ("999999999999999999*#", 9)])
def test_a_formula_without_a_result_is_refused(text: str, number: int) -> None:
    with pytest.raises(BadFormula):
        parse_formula(text).value(number)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["f1", "f10", "f2"], "f[1,10,2]"),
        (["x.1", "x.2"], "x.[1,2]"),
        (["a.001.r.1", "b.001.r.1"], "a.001.r.1,b.001.r.1"),
        (["a1b1", "a2b2"], "a1b1,a2b2"),
    ],
)
def test_several_names_are_written_compactly(names: list[str], expected: str) -> None:
    assert compact(names) == expected

"""Job descriptions in every syntax: values, refusals with their places, and bounded time for every text."""

from __future__ import annotations

import re
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from broker.pools.model.declarations import Declaration, Declarations
from broker.pools.model.description import NumberLiteral, RequirementRefused
from broker.pools.model.job_text import JobFormat, kind_of, read_job

MEMORY = Declarations({"Memory": Declaration("number")})


def plain(value: Any) -> Any:
    """Replace number literals by ``#`` and their text, also within lists."""
    if isinstance(value, NumberLiteral):
        return "#" + value.text
    return value if isinstance(value, str) else [plain(item) for item in value]


def requirements_of(text: str, kind: JobFormat) -> dict[str, Any] | None:
    values = read_job(text, kind).requirements
    return None if values is None else {name: plain(value) for name, value in values.items()}


def refusal_of(text: str, kind: JobFormat) -> RequirementRefused:
    with pytest.raises(RequirementRefused) as raised:
        read_job(text, kind)
    return raised.value


@pytest.mark.parametrize(
    ("inner", "values"),
    [
        ("", {}),
        (";;", {}),
        ("A=1", {"A": "#1"}),
        ("A = -1.5e-03;", {"A": "#-1.5e-03"}),
        ('A = "x\\"y\\\\z";', {"A": 'x"y\\z'}),
        ('A = "// /* ] ; } \t";', {"A": "// /* ] ; } \t"}),
        ('A = "";', {"A": ""}),
        ("A = {};", {"A": []}),
        ('A = { "x" , 1 /* c */ , "y" } ; B = "z"', {"A": ["x", "#1", "y"], "B": "z"}),
        ("A/**/=/**/1/**/;//end", {"A": "#1"}),
        ('A = "Größe"', {"A": "Größe"}),
    ],
)
def test_requirements_in_jdl(inner: str, values: dict[str, Any]) -> None:
    assert requirements_of(f"[ Requirements = [ {inner}\n ] ]", "jdl") == values
    assert requirements_of(f"/**/[Requirements=[{inner}\n];X=1]\n// end", "jdl") == values
    assert requirements_of(f"[ Requirements = [ {inner}\n ] X = 1; ]", "jdl") == values


def test_other_attributes_are_ignored_and_may_be_long() -> None:
    text = '[ Arguments = "' + "x" * 1000 + '"; In = { ' + ", ".join(['"f"'] * 100) + " }; S = [ T = [ ] ] ]"
    job = read_job(text, "jdl")
    assert job.requirements is None
    assert len(job.description.attributes) == 3
    assert job.pool("lhcb", MEMORY) is None


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("", "expected-section", 1, 1),
        ("A = 1;", "expected-section", 1, 1),
        ("[", "unterminated-section", 1, 2),
        ("[ A", "expected-equals", 1, 4),
        ("[ A = ", "unterminated-section", 1, 7),
        ("[ A = ; ]", "missing-value", 1, 7),
        ("[ A = ]", "missing-value", 1, 7),
        ("[ 1A = 1; ]", "expected-name", 1, 3),
        ("[ A 1; ]", "expected-equals", 1, 5),
        ("[ A == 1; ]", "expression-not-supported", 1, 6),
        ("[ A = true; ]", "expression-not-supported", 1, 7),
        ("[ Requirements = other.X >= 4; ]", "expression-not-supported", 1, 18),
        ("[ A = 1 B; ]", "expression-not-supported", 1, 9),
        ("[ A = 1 B == 2; ]", "expression-not-supported", 1, 9),
        ("[\n A = 1\n B = 2; ]", "expected-semicolon", 3, 2),
        ('[ A = 1 "x"; ]', "expected-semicolon", 1, 9),
        ("[ A = (1); ]", "expression-not-supported", 1, 7),
        ("[ A = .5; ]", "expression-not-supported", 1, 7),
        ("[ A = 5.; ]", "expression-not-supported", 1, 8),
        ("[ A = 0x1F; ]", "expression-not-supported", 1, 8),
        ("[ A = 1e; ]", "expression-not-supported", 1, 8),
        ("[ A = 4B = 2; ]", "expression-not-supported", 1, 8),
        ("[ A = { 4GB }; ]", "expression-not-supported", 1, 10),
        ("[ A = +; ]", "expression-not-supported", 1, 7),
        ("[ A = 1e999999999; ]", "number-range", 1, 7),
        ('[ A = "x\ny"; ]', "unterminated-string", 1, 7),
        ('[ A = "x\\n"; ]', "bad-escape", 1, 9),
        ('[ A = "x\\', "unterminated-string", 1, 7),
        ('[ A = "x\\";', "unterminated-string", 1, 7),
        ('[ A = { "x"', "unterminated-list", 1, 12),
        ('[ A = { "x", ', "unterminated-list", 1, 14),
        ('[ A = { "x" "y" }; ]', "expected-comma", 1, 13),
        ('[ A = { "x"; "y" }; ]', "expected-comma", 1, 12),
        ('[ A = { "x", }; ]', "missing-value", 1, 14),
        ('[ A = { , "x" }; ]', "missing-value", 1, 9),
        ('[ A = { { "x" } }; ]', "nested-list", 1, 9),
        ("[ A = { [ ] }; ]", "nested-list", 1, 9),
        ("[ A = { x }; ]", "expression-not-supported", 1, 9),
        ("[ /* A = 1; ]", "unterminated-comment", 1, 3),
        ("[ A = [ B = [ C = [ ] ] ] ]", "nesting-too-deep", 1, 19),
        ("[ A = 1; ] ]", "text-after-end", 1, 12),
        ("[ A = 1; ] []", "text-after-end", 1, 12),
        ("[ A = 1; a = 2; ]", "name-case-clash", 1, 10),
        ("[ Requirements = [ ]; Requirements = [ ]; ]", "duplicate-name", 1, 23),
        ("[ requirements = [ A = 1; ]; ]", "keyword-case", 1, 3),
        ('[ Requirements = "A"; ]', "requirements-not-a-section", 1, 3),
        ("[ Requirements = [ A = [ ] ]; ]", "nested-section", 1, 20),
        ("[ \x00 ]", "expected-name", 1, 3),
        ("[ A = \u201cx\u201d; ]", "expression-not-supported", 1, 7),
        ("x" * 65_537, "text-too-large", 0, 0),
        ("é" * 32_769, "text-too-large", 0, 0),
    ],
)
def test_refusals_of_jdl_have_their_place(text: str, code: str, line: int, column: int) -> None:
    refusal = refusal_of(text, "jdl")
    assert (refusal.code, tuple(refusal.place or (0, 0))) == (code, (line, column))


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        ([], {}),
        (["A = 4000"], {"A": "4000"}),
        (["A=V1,V2 , V3"], {"A": ["V1", "V2", "V3"]}),
        (["A = V1", "A += V2, V3", "A += V4, V5"], {"A": ["V1", "V2", "V3", "V4", "V5"]}),
        (["A += V1"], {"A": "V1"}),
        (['A = "a,b", c'], {"A": ["a,b", "c"]}),
        (['A = "say \\"x\\" \\\\"'], {"A": 'say "x" \\'}),
        (['A = ""'], {"A": ""}),
        (["A = V1,"], {"A": ["V1", ""]}),
        (["# B = 1", "  // B = 1", "", "A = http://x#y"], {"A": "http://x#y"}),
        (["A = Intel Xeon\r"], {"A": "Intel Xeon"}),
        (['A = " a"'], {"A": " a"}),
    ],
)
def test_requirements_in_cfg(lines: list[str], values: dict[str, Any]) -> None:
    inner = "\n".join("  " + line for line in lines)
    assert requirements_of(f"Executable = x\nRequirements\n{{\n{inner}\n}}\n", "cfg") == values
    assert requirements_of(f"Requirements {{\r\n{inner}\r\n}}\r\nOther\n{{\n}}", "cfg") == values


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("Requirements", "expected-section", 1, 1),
        ("Requirements\nA = 1", "expected-section", 2, 1),
        ("Requirements\n{", "unterminated-section", 2, 1),
        ("{\n}", "expected-name", 1, 1),
        ("}", "text-after-end", 1, 1),
        ("Requirements { A = 1 }", "expected-name", 1, 1),
        ("A = 1 }", "expression-not-supported", 1, 5),
        ("A B = 1", "expected-name", 1, 1),
        ("A >= 1", "expected-name", 1, 1),
        ("A == 1", "expression-not-supported", 1, 4),
        ("A", "expected-section", 1, 1),
        ("A =", "missing-value", 1, 1),
        ("A +=", "missing-value", 1, 1),
        ('A = "x', "unterminated-string", 1, 5),
        ('A = "x" y', "expected-comma", 1, 5),
        ('A = x "y"', "expression-not-supported", 1, 5),
        ('A = "x\\n"', "expected-comma", 1, 5),
        ("A = 4000 # MB", "expression-not-supported", 1, 5),
        ("A = { 1, 2 }", "expression-not-supported", 1, 5),
        ("A = 1\nA = 2", "duplicate-name", 2, 1),
        ("A = 1\na = 2", "name-case-clash", 2, 1),
        ("A\n{\n}\nA += 1", "duplicate-name", 4, 1),
        ("A\n{\n B\n {\n  C\n  {", "nesting-too-deep", 6, 3),
        ("Requirements = 1", "requirements-not-a-section", 1, 1),
        ("Requirements\n{\n A\n {\n }\n}", "nested-section", 3, 2),
        ("REQUIREMENTS\n{\n}", "keyword-case", 1, 1),
        ("#" * 65_537, "text-too-large", 0, 0),
    ],
)
def test_refusals_of_cfg_have_their_place(text: str, code: str, line: int, column: int) -> None:
    refusal = refusal_of(text, "cfg")
    assert (refusal.code, tuple(refusal.place or (0, 0))) == (code, (line, column))


@pytest.mark.parametrize(
    ("text", "code", "name"),
    [
        ("[]", "requirements-not-a-section", None),
        ('"x"', "requirements-not-a-section", None),
        ("{", "not-json", None),
        ("", "not-json", None),
        ('{"A": 01}', "not-json", None),
        ('{"A": true}', "boolean-not-supported", "A"),
        ('{"A": [false]}', "boolean-not-supported", "A"),
        ('{"A": null}', "missing-value", "A"),
        ('{"A": {}}', "nested-section", "A"),
        ('{"A": [[]]}', "nested-list", "A"),
        ('{"A": 1, "A": 2}', "duplicate-name", "A"),
        ('{"A":' * 9 + "1" + "}" * 9, "nesting-too-deep", None),
        ("[" * 60_000, "nesting-too-deep", None),
        (" " * 65_537, "text-too-large", None),
    ],
)
def test_json_that_is_refused(text: str, code: str, name: str | None) -> None:
    refusal = refusal_of(text, "json")
    assert (refusal.code, refusal.name) == (code, name)


def test_numbers_in_json_are_not_expanded() -> None:
    digits = "9" * 60_000
    assert requirements_of(f'{{"A": 4000.10, "B": {digits}, "C": NaN}}', "json") == {
        "A": "#4000.10", "B": "#" + digits, "C": "#NaN",
    }  # fmt: skip
    for value, code in (("NaN", "not-a-number"), ("1e400", "number-range"), (digits, "value-too-long")):
        with pytest.raises(RequirementRefused, match=code):
            read_job(f'{{"A": {value}}}', "json").pool("lhcb", MEMORY)


def test_refusals_after_parsing_also_have_their_place() -> None:
    with pytest.raises(RequirementRefused) as refusal:
        read_job('[\n Requirements = [\n  A = 1;\n  Memory = "4 GB";\n ]\n]', "jdl").pool("lhcb", MEMORY)
    assert (refusal.value.name, str(refusal.value.place)) == ("Memory", "line 4, column 3")
    with pytest.raises(RequirementRefused) as refusal:
        read_job("Requirements\n{\n  Site = X\n}", "cfg").pool("lhcb", MEMORY)
    assert (refusal.value.code, str(refusal.value.place)) == ("standard-keyword", "line 3, column 3")


@pytest.mark.parametrize(
    ("text", "suffix", "kind"),
    [
        ("{}", ".jdl", "jdl"), ("{}", ".CFG", "cfg"), ("[]", ".json", "json"), ("\n [ ]", "", "jdl"),
        ("{}", ".txt", "json"),
        ("/* [ */ // {\n { }", "", "json"), ("# [\nA = 1", "", "cfg"), ("\ufeff[ ]", "", "jdl"), ("", "", "cfg"),
    ],
)  # fmt: skip
def test_the_format_of_a_file(text: str, suffix: str, kind: str) -> None:
    assert kind_of(text, suffix) == kind


PIECES = [
    *'[]{}=;,"\\A4.e-#\n :\x00é', "Requirements", "+=", "Memory", "//", "/*", "*/", "[ Requirements = [",
    "Requirements\n{\n", "A = 1", '"x"',
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.sampled_from(["jdl", "cfg", "json"]))
@example("// ]\n[ Requirements = [ A = 1 ] ]", "jdl")
@example('\n{"A": ["x"]}', "json")
@example("[ Requirements = [ Memory = 1e30 ] ]", "jdl")
@example('{"Memory": 1e30}', "json")
@settings(max_examples=150, deadline=None)
def test_every_text_gives_requirements_or_a_refusal_with_a_place_in_the_text(text: str, kind: JobFormat) -> None:
    try:
        job = read_job(text, kind)
        assert kind == "cfg" or kind_of(text) == kind
        job.pool("lhcb", MEMORY)
    except RequirementRefused as refusal:
        assert re.fullmatch("[a-z]+(-[a-z]+)+", refusal.code)
        if refusal.place is None:
            assert kind == "json" and (refusal.name is not None or refusal.code == "nesting-too-deep")
        else:
            line, column = refusal.place
            assert 1 <= column <= len(("", *text.split("\n"))[line]) + 1 and line > 0


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        ("[ A =", "jdl"), ("[", "jdl"), ("/*", "jdl"), ("/**/", "jdl"), ("[ /**/ //\n", "jdl"), ('[A="\\"', "jdl"),
        ('[A={"x",', "jdl"), ("[A=1;", "jdl"), ("[A=9", "jdl"), ('"', "cfg"), ("A=,", "cfg"), (",", "cfg"),
        ("A{\n", "cfg"), ("A+=1,2\n", "cfg"), ('{"A":[', "json"), ('{"A', "json"), ("\\", "json"), (" ", "jdl"),
        ("#\n", "cfg"),
    ],
)  # fmt: skip
def test_no_text_takes_long(unit: str, kind: JobFormat) -> None:
    for text in ((unit * 65_536)[:65_536], "[A = {" + (unit * 65_536)[:65_000], 'A = "' + (unit * 65_536)[:65_000]):
        start = process_time()
        try:
            read_job(text, kind)
        except RequirementRefused as refusal:
            assert refusal.code
        assert process_time() - start < 1.0


@pytest.mark.parametrize("length", [65, 80, 81, 300])
def test_the_refusal_of_a_long_name_has_its_place(length: int) -> None:
    with pytest.raises(RequirementRefused) as refusal:
        read_job(f"[ Requirements = [ B = 1;\n {'A' * length} = 1 ] ]", "jdl").pool("v", MEMORY)
    assert (refusal.value.code, refusal.value.place) == ("name-invalid", (2, 2))

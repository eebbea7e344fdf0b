"""Every notation of a requirement: equal meaning gives one requirement; errors are reported with their position."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from broker.matching.architecture import parse, read
from broker.matching.requirement import RequirementError, canonical, document
from tests.matching.requirements import json_documents, old_strings

P = "x86_64-centos7-gcc8-opt"
CPU_X86 = [{"arch": "x86_64", "vendor": "*", "instr": "*"}]
BOTH = [{"arch": "aarch64", "vendor": "*", "instr": "*"}, *CPU_X86]
NVIDIA = {"vendor": "nvidia"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (P, {"sw_platform": P, "cpu_specs": CPU_X86, "cpu_implied": True}),
        (f"{P}@centos7", {"sw_platform": P, "base_platform": "centos7", "cpu_specs": CPU_X86, "cpu_implied": True}),
        (f"{P}#", {"sw_platform": P}),
        (f"{P}#&nvidia", {"sw_platform": P, "gpu_spec": NVIDIA}),
        (f"{P}&nvidia", {"sw_platform": P, "cpu_specs": CPU_X86, "cpu_implied": True, "gpu_spec": NVIDIA}),
        (
            f"{P}@centos7+docker://img#x86_64-intel&nvidia-A100-SXM4-80GB:vram=1",
            {
                "sw_platform": P,
                "base_platform": "centos7+docker://img",
                "cpu_specs": [{"arch": "x86_64", "vendor": "intel", "instr": "*"}],
                "gpu_spec": {"vendor": "nvidia", "model": "A100", "vram": "==1"},
            },
        ),
        ("#x86_64", {"cpu_specs": CPU_X86}),
        ("#(x86_64|aarch64)", {"cpu_specs": BOTH}),
        ("#x86_64^whatever", {"cpu_specs": CPU_X86}),
        ("&nvidia^whatever", {"gpu_spec": NVIDIA}),
        ("&nvidia#x86_64", {"cpu_specs": CPU_X86, "gpu_spec": NVIDIA}),
        ("#x86_64&nvidia@el9", {"base_platform": "el9", "cpu_specs": CPU_X86, "gpu_spec": NVIDIA}),
        ("#&", {}),
        ("#&*", {"gpu_spec": {"vendor": "*"}}),
        ("&:vram>=1", {"gpu_spec": {"vendor": "*", "vram": ">=1"}}),
        ("@centos7", {"base_platform": "centos7"}),
        ("@", {}),
        ("", {}),
        ("  ", {}),
        ("^x86_64-el9", {"sw_platform": "^x86_64-el9"}),
        (
            "(x86_64|aarch64)-el9-opt",
            {"sw_platform": "(x86_64|aarch64)-el9-opt", "cpu_specs": BOTH, "cpu_implied": True},
        ),
        ("#&nvidia-.*A100.*:model=.*H100.*", {"gpu_spec": {**NVIDIA, "model": ".*H100.*"}}),
        ("#&nvidia:model!=.*P100.*", {"gpu_spec": {**NVIDIA, "model": {"pattern": ".*P100.*", "excl": True}}}),
        (
            "#&nvidia:model=.*A100.*:vram>=40960:cuda>=12.0:uarch=Ampere:driver>=575.0",
            {
                "gpu_spec": {
                    **NVIDIA,
                    "model": ".*A100.*",
                    "vram": ">=40960",
                    "version": ">=12.0",
                    "microarchitecture": ["Ampere"],
                    "driver_version": ">=575.0",
                }
            },
        ),
        ("#& nvidia : vram >= 40960 : cuda != 12.0 ", {"gpu_spec": {**NVIDIA, "vram": ">=40960", "version": "!=12.0"}}),
        ("#&nvidia:vram>=1:vram<9", {"gpu_spec": {**NVIDIA, "vram": "<9"}}),
        ("#&nvidia:vram=*:uarch=*", {"gpu_spec": NVIDIA}),
        (
            "#&nvidia:uarch!=Ampere",
            {"gpu_spec": {**NVIDIA, "microarchitecture": {"names": ["Ampere"], "excl": True}}},
        ),
        ('{"gpu_spec": {}}', {"gpu_spec": {"vendor": "*"}}),
        ('{"gpu_spec": null, "cpu_specs": [], "base_platform": null}', {}),
        ('{"gpu_spec": {"vendor": "nvidia", "vram": "= 15360"}}', {"gpu_spec": {**NVIDIA, "vram": "==15360"}}),
        (
            '{"gpu_spec": {"microarchitecture": ["Hopper", "Ampere", "Hopper"]}}',
            {"gpu_spec": {"vendor": "*", "microarchitecture": ["Ampere", "Hopper"]}},
        ),
        (
            '{"cpu_specs": [{"vendor": "intel", "type": "cpu"}]}',
            {"cpu_specs": [{"arch": "*", "vendor": "intel", "instr": "*"}]},
        ),
        ('{"sw_platform": "x86_64-el9-opt"}', {"sw_platform": "x86_64-el9-opt"}),
        (
            '{"cpu_pref": {"preferred_architecture_level": "x86-64-v3"}}',
            {"cpu_pref": {"preferred_architecture_level": "x86-64-v3"}},
        ),
        (
            '{"sw_platform": "p", "encoded_platform": "p@centos7#x86_64-intel"}',
            {
                "sw_platform": "p",
                "base_platform": "centos7",
                "cpu_specs": [{"arch": "x86_64", "vendor": "intel", "instr": "*"}],
            },
        ),
        ('{"sw_platform": "p", "encoded_platform": "x86_64-p"}', {"sw_platform": "p"}),
        (
            '{"encoded_platform": "p#&nvidia", "gpu_spec": {"vendor": "amd"}}',
            {"sw_platform": "p", "gpu_spec": {"vendor": "amd"}},
        ),
    ],
)
def test_the_parsed_requirement(text: str, expected: dict[str, Any]) -> None:
    assert document(parse(text)) == expected


def test_an_empty_text_has_no_requirements() -> None:
    assert read(None) == read("") and not read(None).problems


@pytest.mark.parametrize(
    "texts",
    [
        ["#&nvidia", "&nvidia", '{"gpu_spec": {"vendor": "nvidia"}}'],
        ["#&nvidia", '{"gpu_spec": {"vendor": "nvidia", "model": "*"}}'],
        ["#&*", '{"gpu_spec": {}}', '{"gpu_spec": {"vendor": "*"}}', "#&*:vram=*"],
        ["#x86_64&amd", "&amd#x86_64", '{"cpu_specs": [{"arch": "x86_64"}], "gpu_spec": {"vendor": "amd"}}'],
        [
            "#(x86_64|aarch64)-intel",
            "#x86_64-intel|aarch64-intel",
            '{"cpu_specs": [{"arch": "aarch64", "vendor": "intel"}, {"arch": "x86_64", "vendor": "intel"}]}',
            '{"cpu_specs": [{"arch": "(x86_64|aarch64)", "vendor": "intel", "instr": "*"}]}',
        ],
        ["#&*:cuda=12", "#&*:cuda==12", '{"gpu_spec": {"version": "=12"}}', '{"gpu_spec": {"version": "== 12"}}'],
        ["#&*:model!=.*T4", '{"gpu_spec": {"model": {"pattern": ".*T4", "excl": true}}}'],
        ["#&*:model=.*T4", "#&*-.*T4"],
        ["#&*:model==.*T4", '{"gpu_spec": {"model": {"pattern": ".*T4"}}}', '{"gpu_spec": {"model": ".*T4"}}'],
        ["#&*:uarch=Ampere", '{"gpu_spec": {"microarchitecture": "Ampere"}}'],
        ["p#@el9", '{"sw_platform": "p", "base_platform": "el9"}'],
    ],
)
def test_equal_meaning_gives_one_requirement(texts: list[str]) -> None:
    assert len({parse(text) for text in texts}) == 1
    assert len({canonical(parse(text)) for text in texts}) == 1


@pytest.mark.parametrize(
    ("text", "position", "message", "is_fatal"),
    [
        ("#&nvidia:memory>=1", 10, "memory", False),
        ("x86_64&&", 8, "a second '&'", False),
        ("#&nvidia:vram>=1&amd", 17, "a second '&'", False),
        ("#&nvidia:vram>=1: VRAM>=1", 19, "VRAM", False),
        ("#&nvidia:vram", 10, "no key, operator and value", False),
        ("#&nvidia:model=A:B", 18, "'B'", False),
        ("#&nvidia:vram>=", 10, "nothing fulfils", False),
        ("#&nvidia:vram=>1", 10, "nothing fulfils", False),
        ("#&nvidia:vram>=40960MB", 10, "nothing fulfils", False),
        ("#&nvidia:model>=A", 10, "not compared by >=", False),
        ("#&nvidia:uarch<Ampere", 10, "not compared by <", False),
        ("#&nvidia:model=", 10, "without a value", False),
        ("#x86_64|", 9, "nothing in it", False),
        ('{"gpu_spec": {"vendor": "nvidia", "pattern": ".*", "excl": true}}', 35, "gpu_spec.pattern", False),
        ('{"gpu_spec": {"vram": "40960"}}', 15, "gpu_spec.vram", False),
        ('{"gpu_spec": {"vram": 40960}}', 15, "gpu_spec.vram", False),
        ('{"gpu": {}}', 2, "gpu: there is no such key", False),
        ('{"cpu_specs": [{}, {"archh": "x"}]}', 21, "cpu_specs.1.archh", False),
        ('{"cpu_specs": {"arch": "x"}}', 2, "cpu_specs: is a object", True),
        ('{"cpu_specs": ["x86_64"]}', 16, "cpu_specs.0", True),
        ('{"cpu_specs": [null]}', 16, "cpu_specs.0", True),
        ('{"gpu_spec": "nvidia"}', 2, "gpu_spec: is a text", True),
        ('{"gpu_spec": {"model": 5}}', 15, "gpu_spec.model: is a number", True),
        ('{"gpu_spec": {"model": {"excl": true}}}', 15, "excludes nothing", True),
        ('{"gpu_spec": {"model": {"pattern": "a", "excl": 1}}}', 41, "gpu_spec.model.excl", True),
        ('{"gpu_spec": {"microarchitecture": 1}}', 15, "neither a text nor a list", True),
        ('{"gpu_spec": {"microarchitecture": []}}', 15, "empty list", False),
        ('{"gpu_spec": {"version": [">=1"]}}', 15, "gpu_spec.version: is a list", True),
        ('{"sw_platform": 1}', 2, "sw_platform: is a number", True),
        ('{"encoded_platform": 1}', 2, "encoded_platform", True),
        ('{"a": 1, "a": 2}', 1, "twice", True),
        ('{"gpu_spec": }', 14, "no JSON", True),
        ("{'gpu_spec': {}}", 2, "no JSON", True),
        ("'{\"gpu_spec\": {}}'", 1, "quotation mark", True),
        ('"x86_64-el9"', 1, "quotation mark", True),
        ('{"a": ' + "1" * 5000 + "}", 1, "no JSON", True),
        ('{"cpu_specs": ' + "[" * 9000 + "]" * 9000 + "}", 1, "too deeply", True),
        ("x" * 20_001, 20_000, "longer than 20000 characters", True),
    ],
)
def test_a_problem_has_a_position_and_names_what_is_accepted(
    text: str, position: int, message: str, is_fatal: bool
) -> None:
    with pytest.raises(RequirementError) as caught:
        parse(text)
    problem = caught.value.problems[0]
    assert problem.position == position
    assert message in problem.what
    assert problem.accepted
    assert problem.fatal is is_fatal
    assert str(caught.value).startswith(f"character {position}: ")
    assert len(str(caught.value)) < 600
    reading = read(text)
    assert (reading.fault is not None) is is_fatal


@given(st.one_of(old_strings(), json_documents().map(json.dumps)))
def test_the_canonical_form_is_stable(text: str) -> None:
    reading = read(text)
    reparsed = (
        parse(canonical(reading.requirement))
        if not reading.problems
        else read(canonical(reading.requirement)).requirement
    )
    assert canonical(reparsed) == canonical(reading.requirement)
    if not reading.problems:
        assert reparsed == reading.requirement


@given(st.one_of(st.text(max_size=200), st.text("#&@^|()-:{}[]\"'*=<>! ,\\x0\0", max_size=60)))
def test_any_text_is_read(text: str) -> None:
    reading = read(text)
    hash(reading)
    assert all(1 <= problem.position <= len(text) + 1 for problem in reading.problems)


KEYS = ["sw_platform", "base_platform", "cpu_specs", "gpu_spec", "vendor", "model", "pattern", "excl", "arch", "vram"]
KEYS += ["microarchitecture", "names", "encoded_platform", "cpu_pref"]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_any_json_is_read(body: Any) -> None:
    text = json.dumps(body)
    reading = read(text)
    hash(reading)
    assert all(1 <= problem.position <= len(text) + 1 for problem in reading.problems)

"""The notation of CPU requests."""

from __future__ import annotations

import pytest

from broker.matching.cpu_language import MAX_ALTERNATIVES, read_cpus, split_outside, unwrapped
from broker.matching.requirement import Problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x86_64", ["x86_64/*/*"]),
        ("x86_64-intel", ["x86_64/intel/*"]),
        ("x86_64-intel-avx2", ["x86_64/intel/avx2"]),
        ("x86_64-intel-avx2-foo", ["x86_64/intel/avx2"]),
        ("x86_64-*-avx2", ["x86_64/*/avx2"]),
        ("x86_64--avx2", ["x86_64/*/avx2"]),
        ("*-intel", ["*/intel/*"]),
        ("*", ["*/*/*"]),
        (" x86_64 - intel ", ["x86_64/intel/*"]),
        ("(x86_64|aarch64)", ["aarch64/*/*", "x86_64/*/*"]),
        ("x86_64|aarch64", ["aarch64/*/*", "x86_64/*/*"]),
        ("aarch64|x86_64|aarch64", ["aarch64/*/*", "x86_64/*/*"]),
        ("(x86_64-intel|aarch64)", ["aarch64/*/*", "x86_64/intel/*"]),
        ("(x86_64|aarch64)-intel", ["aarch64/intel/*", "x86_64/intel/*"]),
        ("((a|b)|(c|(d)))-v", ["a/v/*", "b/v/*", "c/v/*", "d/v/*"]),
        ("(a)|(b)", ["a/*/*", "b/*/*"]),
        ("x(8|9)6", ["x(8|9)6/*/*"]),
        ("(?:a|b)", ["(?:a|b)/*/*"]),
        (r"a\|b", [r"a\|b/*/*"]),
        ("aarch64)-intel", ["aarch64)/intel/*"]),
    ],
)
def test_alternatives(text: str, expected: list[str]) -> None:
    problems: list[Problem] = []
    cpus = [f"{cpu.arch}/{cpu.vendor}/{cpu.instr}" for cpu in read_cpus(text, 1, problems)]
    assert cpus == expected
    assert problems == []


@pytest.mark.parametrize(
    ("text", "remaining", "position", "is_fatal"),
    [
        ("x86_64|", 1, 8, False),
        ("|", 0, 1, True),
        ("(a||b)", 2, 4, False),
        ("(a|)-intel", 1, 1, False),
        ("-", 0, 1, True),
        ("|".join(f"a{number}" for number in range(MAX_ALTERNATIVES + 1)), 0, 1, True),
    ],
)
def test_problems(text: str, remaining: int, position: int, is_fatal: bool) -> None:
    problems: list[Problem] = []
    assert len(read_cpus(text, 0, problems)) == remaining
    assert problems[0].position == position
    assert any(problem.fatal for problem in problems) is is_fatal


def test_the_largest_number_of_alternatives_is_accepted() -> None:
    problems: list[Problem] = []
    text = "|".join(f"a{number}" for number in range(MAX_ALTERNATIVES))
    assert len(read_cpus(text, 0, problems)) == MAX_ALTERNATIVES and not problems


@pytest.mark.parametrize(
    ("text", "inner"),
    [("(a)", "a"), ("(a)(b)", "(a)(b)"), ("((a)b)", "(a)b"), ("(a", "(a"), (r"(a\)", r"(a\)"), ("()", ""), ("", "")],
)
def test_unwrapped(text: str, inner: str) -> None:
    assert unwrapped(text) == inner


def test_split_outside_returns_the_position_of_each_part() -> None:
    assert split_outside("a|(b|c)|d", "|") == [(0, "a"), (2, "(b|c)"), (8, "d")]
    assert split_outside("a)|b", "|") == [(0, "a)"), (3, "b")]

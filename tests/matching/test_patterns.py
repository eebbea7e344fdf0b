"""Patterns of users: what they match, and patterns that are too expensive for a backtracking engine."""

from __future__ import annotations

import pytest

from broker.matching.patterns import MAX_PATTERN_CHARACTERS, PatternUnsupportedError, SafePattern, why_unsupported


@pytest.mark.parametrize(
    ("pattern", "text", "starts", "covers"),
    [
        ("nv", "nvidia", True, False),
        ("idia", "nvidia", False, False),
        ("nvidia", "nvidia", True, True),
        ("NVIDIA", "nvidia", False, False),
        ("a|b", "b", True, True),
        ("a|b", "bc", True, False),
        ("x86_64|aarch64", "x86_64_v2", True, False),
        (".*A100$", "NVIDIA A100", True, True),
        (".*A100$", "NVIDIA A100-SXM4", False, False),
        ("a.b", "a\nb", False, False),
        ("", "", True, True),
        ("a\0b", "a\0b", True, True),
        ("é", "é", True, True),
        (".", "\ud800", True, True),
    ],
)
def test_matching(pattern: str, text: str, starts: bool, covers: bool) -> None:
    safe_pattern = SafePattern(pattern, ignore_case=False)
    assert (safe_pattern.starts(text), safe_pattern.covers(text)) == (starts, covers)


def test_case_can_be_ignored() -> None:
    assert SafePattern(".*a100.*", ignore_case=True).starts("NVIDIA A100-SXM4")


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "[a",
        "*",
        "a**",
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        r"(a)\1",
        "(" * 5000,
        "x" * (MAX_PATTERN_CHARACTERS + 1),
        "((((a{1000}){1000}){1000}){1000})",
        "\ud800",
        "a{2,1}",
        r"\8",
    ],
)
def test_unsupported_patterns_are_refused_with_a_reason(pattern: str) -> None:
    with pytest.raises(PatternUnsupportedError) as caught:
        SafePattern(pattern, ignore_case=False)
    assert caught.value.why
    assert why_unsupported(pattern) == caught.value.why
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}", "(a?){100}a{100}", "x" * 10_000])
def test_patterns_with_exponential_backtracking_end(pattern: str) -> None:
    assert why_unsupported(pattern) is None
    assert not SafePattern(pattern, ignore_case=True).covers("a" * 50_000 + "!")

"""Which platforms are patterns, and how patterns are resolved."""

from __future__ import annotations

import pytest

from broker.domain.queues import Hardware, HardwareEntry, QueueSoftware
from broker.matching.patterns import PatternUnsupportedError
from broker.matching.platforms import is_pattern, resolved


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("", False),
        ("x86_64-centos7-gcc8-opt", False),
        ("x86_64-el9.4-gcc13.2-opt", False),
        ("x86_64-centos[67]-gcc8-opt", True),
        ("x86_64-(centos7|slc6)-gcc8-opt", True),
        (r"x86_64-.*-gcc\d+-opt", True),
        ("x86_64-el9-gcc13-opt+x", True),
        ("x86_64-.*-gcc8-opt", True),
        ("x86_64-.+-gcc8-opt", True),
        ("x86_64-centos7-gcc.-opt", True),
        ("x86_64-el9-gcc1.", True),
        (".4", True),
        ("x86_64-el9-gcc{2}", True),
        ("^x86_64$", True),
    ],
)
def test_is_pattern(platform: str, expected: bool) -> None:
    assert is_pattern(platform) is expected


def tags(*cmtconfigs: str, arch: tuple[str, ...] = ()) -> QueueSoftware:
    return QueueSoftware("", cmtconfigs=cmtconfigs, hardware=Hardware(HardwareEntry(arch=arch)))


@pytest.mark.parametrize(
    ("platform", "software", "expected"),
    [
        ("a-b", tags(), "a-b"),
        ("a-b+", tags("a-b+"), "a-b+"),
        ("a-.", tags("xa-b", "a-bc", "a-c", "a-d"), "a-c"),
        ("a|b", tags("ab", "b"), "b"),
        ("a-.", tags("a-\n"), None),
        ("(a|b)-x", tags(arch=("b", "a")), "a-x"),
        ("(a|b)-x", tags(arch=("b",)), "b-x"),
        ("(a|b)-x", tags(arch=("any",)), "a-x"),
        ("(a|b)-x", tags("b-x", arch=("a",)), "b-x"),
        ("(a.|b)-x", tags(arch=("any",)), "b-x"),
        ("(a|b)-x.*", tags(arch=("any",)), None),
        ("(a|b)", tags(arch=("any",)), None),
        ("a.-x", tags(arch=("any",)), None),
        ("a-.", None, None),
    ],
)
def test_resolved(platform: str, software: QueueSoftware | None, expected: str | None) -> None:
    assert resolved(platform, software) == expected


def test_an_unsupported_pattern_is_refused() -> None:
    with pytest.raises(PatternUnsupportedError):
        resolved("a-(?=b)", tags("a-b"))

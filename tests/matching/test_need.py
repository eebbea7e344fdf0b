"""The release in transHome, and the needs of tasks."""

from __future__ import annotations

import pytest

from broker.matching.need import Release, need_of, production_need, read_release


@pytest.mark.parametrize(
    ("transhome", "expected"),
    [
        ("Athena-21.0.38", Release("atlas", "Athena", "21.0.38")),
        ("AtlasDerivation-20.1.5.4", Release("atlas", "AtlasDerivation", "20.1.5.4")),
        ("AtlasProduction-21.0-rel_3-21.0.38", Release("atlas", "AtlasProduction", "21.0")),
        ("Athena-main--Athena-2026-07-30T2101", Release("nightlies")),
        ("Athena-2026-07-30T2101-extra", Release("atlas", "Athena", "2026")),
        ("Athena-21.0-rel_12", Release("nightlies")),
        ("Athena-rel_12x", Release("atlas", "Athena", "rel_12x")),
        ("AnalysisTransforms", Release("atlas", "AnalysisTransforms", "")),
        ("", Release("atlas", "", "")),
    ],
)
def test_read_release(transhome: str, expected: Release) -> None:
    assert read_release(transhome) == expected


def test_a_task_without_transhome_needs_only_its_hardware() -> None:
    need = production_need("x86_64-el9-opt#x86_64", None, "img", True)
    assert need.hardware_only and need.release is None and need.container_name is None
    assert need.requirement.asks_hardware


def test_an_empty_container_name_is_none() -> None:
    assert need_of(None, None, "") == need_of("", None)
    assert production_need(None, "A-1.2.3", "", False).container_name is None


def test_an_unreadable_architecture_is_a_fault() -> None:
    fault = need_of("{", None).fault
    assert fault is not None and fault.fatal
    assert need_of("#&nvidia:memory>=1", None).fault is None

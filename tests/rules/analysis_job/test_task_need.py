"""The release that a user task runs, by its transHome and transUses."""

from __future__ import annotations

import pytest

from broker.matching.need import Release
from broker.rules.analysis_job.task_need import analysis_release

NIGHTLY = Release("nightlies")


@pytest.mark.parametrize(
    ("transhome", "transuses", "expected"),
    [
        # a cache: neither nightly nor release
        ("AnalysisTransforms-AnalysisBase_24.2", None, Release("atlas", "AnalysisBase", "24.2")),
        ("AnalysisTransforms-Athena_24.0.41.1", "Atlas-24.0.41", Release("atlas", "Athena", "24.0.41.1")),
        # a release; transUses wins unless it is a series
        ("AnalysisTransforms-Athena_24.0.41", "Atlas-24.0.41", Release("atlas", "AtlasOffline", "24.0.41")),
        ("AnalysisTransforms", "Atlas-24.0", Release("atlas", "AtlasOffline", "24.0")),
        ("AnalysisTransforms-Athena_24.0.41", None, Release("atlas", "Athena", "24.0.41")),
        # the version of a name of three parts is unreadable
        ("AnalysisTransforms-Athena_main_24.0.41", None, Release("atlas", "Athena", "main", readable=False)),
        ("AnalysisTransforms-Athena_main_24.0.41", "Atlas-24.0.41", Release("atlas", "AtlasOffline", "24.0.41")),
        (None, "Atlas-24.0.41", Release("atlas", "AtlasOffline", "24.0.41")),
        # nightlies: by their timestamp, and by default
        ("AnalysisTransforms-Athena_main_2026-08-01T2101", None, NIGHTLY),
        ("AnalysisTransforms-Athena_main_2026-08-01T2101", "Atlas-24.0", NIGHTLY),
        ("AnalysisTransforms-Athena_24.0.41", "Atlas-24.0", NIGHTLY),
        ("AnalysisTransforms", None, NIGHTLY),
        # neither
        (None, None, None),
    ],
)
def test_release(transhome: str | None, transuses: str | None, expected: Release | None) -> None:
    assert analysis_release(transhome, transuses) == expected

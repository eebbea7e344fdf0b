"""A service runs the agents of its file, except brokerages that its profile lacks."""

from __future__ import annotations

import pytest

from agents.service import configuration, registry
from agents.service.configuration import load_profile, sections_to_run


@pytest.mark.parametrize(
    ("profile", "brokerages"),
    [("seed", {"production_task", "production_job", "analysis_job"}), ("panda-gen", {"generic_job"})],
)
def test_agents_of_brokerages_that_the_profile_lacks_do_not_run(profile: str, brokerages: set[str]) -> None:
    shipped = configuration.load(configuration.config_file("agents.yaml"), registry.NAMES)
    sections = sections_to_run(shipped, load_profile(profile))
    assert {name for name in sections if name in registry.BROKERAGES} == brokerages
    assert {"share_usage", "timeouts"} <= sections.keys()

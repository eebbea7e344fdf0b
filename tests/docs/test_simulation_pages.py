"""The scenario files shown on the page can be read and simulated."""

from __future__ import annotations

import re
import textwrap

from broker.simulation.model.loop import ClosedLoop
from broker.simulation.model.policies.simple import LeastLoaded
from broker.simulation.model.scenario_file import FixedScenario, GridChoice, read_scenario
from tests.docs.source_tree import ROOT


def test_the_scenario_files_of_the_page() -> None:
    page = (ROOT / "docs/how-to/simulate.md").read_text(encoding="utf-8")
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n)+", page, re.MULTILINE)]
    grid_choice, fixed_scenario = (
        read_scenario(block, "page") for block in blocks if block.startswith(("grid:", "name:"))
    )
    assert isinstance(grid_choice, GridChoice) and isinstance(fixed_scenario, FixedScenario)
    assert len(grid_choice(1).queues) == 40
    assert len(ClosedLoop(fixed_scenario(1), LeastLoaded, 1).run().runs) >= 30

"""The scenario files that the page shows can be read and simulated."""

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
    named, whole = (read_scenario(block, "page") for block in blocks if block.startswith(("grid:", "name:")))
    assert isinstance(named, GridChoice) and isinstance(whole, FixedScenario)
    assert len(named(1).queues) == 40
    assert len(ClosedLoop(whole(1), LeastLoaded, 1).run().runs) >= 30

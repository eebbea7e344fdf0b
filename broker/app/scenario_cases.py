"""A scenario file as cases for a comparison: brokered once in a database of its own, which is gone afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from broker.app.agent_cycle import broker_once
from broker.app.scratch_database import scratch_database
from broker.app.stored_cases import NothingStored, Selection, stored_cases
from broker.store.scenarios.load_dump import load
from broker.store.scenarios.scenario_file import read_scenario
from broker.whatif.cases import Case


def scenario_cases(file: Path, brokerages: Sequence[str], seed: int, config: Path | None) -> list[Case]:
    """One case for each brokerage that has work in the scenario; each of them meets the scenario as it is.

    Args:
        file: the scenario.
        brokerages: that are asked.
        seed: of the cycles.
        config: folder with configuration files of the operator's own.

    Raises:
        BadScenario: the file cannot be used.
        NothingStored: no brokerage has work.
    """
    scenario = read_scenario(file)
    cases: list[Case] = []
    with scratch_database("scenario") as database:
        for brokerage in brokerages:
            load(database, scenario, replace=True)
            broker_once(brokerage, database, scenario.now, seed, lambda output: None, config)
            try:
                found = stored_cases(database, Selection(brokerages=(brokerage,)))
            except NothingStored:
                continue
            cases += found
    if not cases:
        raise NothingStored("no brokerage has work in the scenario", str(file), "see broker db load, and broker run")
    return cases

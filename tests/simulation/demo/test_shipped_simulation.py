"""The demonstration stores its shipped simulation once, with a page that is not empty."""

from __future__ import annotations

from broker.simulation.answers.shipped_simulation import keep_shipped_simulation
from broker.simulation.answers.simulations import KIND, simulation_answer
from broker.store.connection.database import Database
from broker.whatif.statements import runs


def test_the_shipped_simulation_is_stored_once_with_its_figures_and_curves(database: Database) -> None:
    number = keep_shipped_simulation(database)
    assert number is not None and keep_shipped_simulation(database) is None
    with database.begin() as connection:
        run = runs.find(connection, number)
    assert run is not None and run.kind == KIND and run.subject == "demonstration"
    answer = simulation_answer(run, number)
    assert [policy.policy for policy in answer.policies] == ["seed", "flow"] and answer.asked.seeds == 10
    assert all(policy.figures["use"].mean for policy in answer.policies)
    assert answer.curves and all(len(line.mean) == len(curve.hours) for curve in answer.curves for line in curve.lines)

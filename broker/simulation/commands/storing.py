"""``broker simulate --store``: a finished comparison is kept in the database, for the API and the page."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from broker.cli.context import open_store
from broker.simulation.answers.simulations import KIND, SimulationAsked
from broker.simulation.commands.documents import curve_documents, policy_document
from broker.simulation.model.comparing import CaseResult, Comparison
from broker.tuning.answers.values import editor_name
from broker.whatif.statements import runs


def check_store(context: typer.Context) -> None:
    """Refuse at once what could not be kept after hours of simulating.

    Raises:
        BrokerError: there is no database, its schema is not current, or it is not known who asks.
    """
    editor_name(None)
    with open_store(context):
        pass


def store_simulation(
    context: typer.Context,
    asked: SimulationAsked,
    comparisons: Sequence[Comparison],
    results: Sequence[CaseResult],
    took_s: float,
) -> int:
    """Keep a comparison; the number of its run.

    Args:
        context: of the command.
        asked: what was simulated.
        comparisons: the figures by policy.
        results: all simulations, with their curves.
        took_s: seconds from the beginning to the end.

    Raises:
        BrokerError: the database cannot be written.
    """
    found = {
        "policies": [policy_document(one, results) for one in comparisons],
        "curves": curve_documents(results),
    }
    with open_store(context) as database, database.begin() as connection:
        return runs.add_done(
            connection, KIND, asked.model_dump(mode="json"), editor_name(None), found, len(results), took_s
        )

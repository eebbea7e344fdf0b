"""``broker simulate --store``: store a finished comparison in the database, for the API and the page."""

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
    """Check that results can be stored, before hours of simulating.

    Raises:
        BrokerError: there is no database, its schema is not current, or the user is not known.
    """
    editor_name(None)
    with open_store(context):
        pass


def store_simulation(
    context: typer.Context,
    request: SimulationAsked,
    comparisons: Sequence[Comparison],
    results: Sequence[CaseResult],
    took_s: float,
) -> int:
    """Store a comparison. Returns the number of its run.

    Args:
        context: context of the command.
        request: settings of the simulation.
        comparisons: figures by policy.
        results: results of all simulations, with their curves.
        took_s: seconds from the beginning to the end.

    Raises:
        BrokerError: the database cannot be written.
    """
    document = {
        "policies": [policy_document(one, results) for one in comparisons],
        "curves": curve_documents(results),
    }
    with open_store(context) as database, database.begin() as connection:
        return runs.add_done(
            connection, KIND, request.model_dump(mode="json"), editor_name(None), document, len(results), took_s
        )

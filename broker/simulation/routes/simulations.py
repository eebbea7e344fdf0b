"""Simulations that ``broker simulate --store`` kept: figures of merit by policy, what differs, curves over time."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow, guarded_router
from broker.api.presenting import After, Limit, Page, answer, key_of, page_of
from broker.api.state import LARGEST_ID, State
from broker.simulation.answers.simulations import (
    KIND,
    SimulationAnswer,
    SimulationLine,
    simulation_answer,
    simulation_lines,
)
from broker.whatif.statements import runs

router = guarded_router(tag="simulations")


@router.get("/simulations", response_model=Page[SimulationLine])
@allow(READ)
def list_simulations(request: Request, api: State, after: After = None, limit: Limit = 50) -> Response:
    """List stored simulations, newest first."""
    before = key_of(after, (int,))
    with api.database.begin() as connection:
        newest = runs.newest(connection, limit + 1, None if before is None else before[0], KIND)
    return answer(request, page_of(simulation_lines(newest), limit, lambda line: [line.id]))


@router.get("/simulations/{simulation}", response_model=SimulationAnswer)
@allow(READ)
def get_simulation(request: Request, api: State, simulation: Annotated[int, Path(ge=1, le=LARGEST_ID)]) -> Response:
    """Get a simulation: figures with intervals by policy, differences from the first policy, curves."""
    with api.database.begin() as connection:
        run = runs.find(connection, simulation)
    return answer(request, simulation_answer(run, simulation))

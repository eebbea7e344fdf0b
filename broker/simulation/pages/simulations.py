"""Pages of stored simulations: policies compared on a simulated grid."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated

from fastapi import Path, Response
from starlette.requests import Request

from broker.access.policies import READ
from broker.api.guarded_route import allow
from broker.api.presenting import After, Limit, key_of, page_of
from broker.api.state import LARGEST_ID, State
from broker.simulation.answers.figures_of_merit import FIGURES, Verdict, cell
from broker.simulation.answers.simulations import KIND, SimulationAnswer, simulation_answer, simulation_lines
from broker.simulation.pages.policies import LINE_STYLES, MOST_CURVES, drawn_curves
from broker.web.rendering import page_router, show
from broker.whatif.statements import runs

router = page_router(tag="simulations")


@dataclass(frozen=True)
class FigureCell:
    """A figure of a policy as text, its difference to the first policy as text, and the verdict."""

    text: str
    difference: str
    verdict: Verdict | None


@dataclass(frozen=True)
class FigureRow:
    """A figure of all policies."""

    name: str
    meaning: str
    cells: tuple[FigureCell, ...]


@router.get("/simulations")
@allow(READ)
def list_simulations(request: Request, api: State, after: After = None, limit: Limit = 50) -> Response:
    """Simulations that were kept, the newest first."""
    before = key_of(after, (int,))
    with api.database.begin() as connection:
        newest = runs.newest(connection, limit + 1, None if before is None else before[0], KIND)
    page = page_of(simulation_lines(newest), limit, lambda line: [line.id])
    return show(request, "simulation/simulations", page, title="Simulations")


@router.get("/simulations/{simulation}")
@allow(READ)
def one_simulation(request: Request, api: State, simulation: Annotated[int, Path(ge=1, le=LARGEST_ID)]) -> Response:
    """A simulation: figures of merit by policy, what differs from the first, and curves over time."""
    with api.database.begin() as connection:
        answer = simulation_answer(runs.find(connection, simulation), simulation)
    return show(
        request,
        "simulation/simulation",
        answer,
        title=f"Simulation {simulation}",
        sentence=verdict_sentence(answer),
        rows=figure_rows(answer),
        heads=["Figure", *(f"{one.policy}|n" for one in answer.policies)],
        curves=lambda: drawn_curves(answer),
        line_styles=LINE_STYLES,
        omitted=max(0, len(answer.curves) - MOST_CURVES),
    )


def verdict_sentence(simulation: SimulationAnswer) -> str:
    """The verdicts of each policy against the first one, counted over the figures of merit. Pure."""
    if len(simulation.policies) < 2:
        return "One policy was simulated: nothing is compared."
    sentences = []
    for one in simulation.policies[1:]:
        verdicts = Counter(each.verdict for each in one.differences.values())
        sentences.append(
            f"{one.policy} is better than {simulation.policies[0].policy} in {verdicts['better']} figures, worse in "
            f"{verdicts['worse']}, and no different in {verdicts['no_difference']}"
        )
    return "; ".join(sentences) + "."


def figure_rows(simulation: SimulationAnswer) -> list[FigureRow]:
    """The figures in their order, with a cell for each policy; figures that no policy has are left out."""
    return [
        FigureRow(
            name, figure.meaning, tuple(_cell(simulation, name, place) for place in range(len(simulation.policies)))
        )
        for name, figure in FIGURES.items()
        if any(one.figures[name].values for one in simulation.policies if name in one.figures)
    ]


def _cell(simulation: SimulationAnswer, name: str, place: int) -> FigureCell:
    policy = simulation.policies[place]
    if name not in policy.figures:
        return FigureCell(cell(name, None, None), "", None)
    value, difference = policy.figures[name], policy.differences.get(name)
    text = cell(name, value.mean_or_beyond, value.half_width)
    if difference is None:
        return FigureCell(text, "", None)
    return FigureCell(text, cell(name, difference.mean, difference.half_width), difference.verdict)

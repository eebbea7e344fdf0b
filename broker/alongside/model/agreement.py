"""How certain a measured agreement is, and how far two sides agree that draw by the same weights. Pure.

Jobs of a task are not independent witnesses: a rule that decides otherwise does so for all of them. So a share has the
interval of Wilson (1927) for as many witnesses as there are tasks, counted as by Kish (1965): tasks of very different
size count for fewer. A bootstrap over tasks would give 100 % to 100 % as long as no difference was seen, however few
the tasks; Wilson's interval does not, and needs no draws.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from broker.domain.arrays import Floats
from broker.domain.quantiles import effective_number

#: Jobs that JEDI places with one draw (JobSplitter, PanDA 1.0.4).
JOBS_OF_A_DRAW = 25
DRAWS = 400
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Draws:
    """Jobs that are placed by weight.

    Attributes:
        jobs: how many.
        chances: the chance of each place to be drawn; they add up to 1.
    """

    jobs: int
    chances: Mapping[str, float]


@dataclass(frozen=True)
class Chance:
    """The effect of random draws alone.

    Attributes:
        drawn_jobs: number of jobs.
        alone: mean fraction of the jobs that one draw puts where its own weights expect them.
        within: lowest and highest value of ``alone`` in 95 % of the draws.
        drawn_twice: mean fraction of the jobs that two draws put at the same places.
        by_place: jobs by which a draw is off at a place, at most, in 95 % of the draws.
    """

    drawn_jobs: int
    alone: float
    within: tuple[float, float]
    drawn_twice: float
    by_place: Mapping[str, float]


def wilson(share: float, witnesses: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval of a share between 0 and 1, for a number of witnesses above 0."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    square = z * z / witnesses
    middle = (share + square / 2) / (1 + square)
    half = z * ((share * (1 - share) + square / 4) / witnesses) ** 0.5 / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def witnesses(sizes: Iterable[float]) -> float:
    """Return as how many clusters of equal size clusters of these sizes count."""
    return effective_number(np.fromiter(sizes, np.float64))


def interval(agreed: float, sizes: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Return the interval of the share of ``agreed`` in clusters of these sizes; None if they hold nothing."""
    count = witnesses(sizes)
    return wilson(agreed / sum(sizes), count, confidence) if count else None


def chance_alone(some: Sequence[Draws], seed: int, draws: int = DRAWS) -> Chance | None:
    """Simulate how far two draws by the same weights agree; None if nothing is drawn.

    Args:
        some: what is placed together; each bunch of :data:`JOBS_OF_A_DRAW` jobs of it goes to one place.
        seed: of the draws.
        draws: how often all of it is drawn, on either side.
    """
    places = sorted({name for draw in some for name in draw.chances})
    total = sum(draw.jobs for draw in some)
    if not places or not total:
        return None
    position = {name: at for at, name in enumerate(places)}
    drawn, expected = np.zeros((2, draws, len(places))), np.zeros(len(places))
    random = np.random.default_rng(seed)
    for draw in _joined(some):
        columns = [position[name] for name in draw.chances]
        chances = np.array(list(draw.chances.values()))
        expected[columns] += draw.jobs * chances
        drawn[:, :, columns] += _drawn(random, draw.jobs, chances, draws)
    alone = np.minimum(drawn[0], expected).sum(axis=1) / total
    twice = np.minimum(drawn[0], drawn[1]).sum(axis=1) / total
    off = np.quantile(np.abs(drawn[0] - expected), 0.95, axis=0)
    low, high = np.quantile(alone, (0.025, 0.975))
    by_place = dict(zip(places, off.tolist(), strict=True))
    return Chance(total, float(alone.mean()), (float(low), float(high)), float(twice.mean()), by_place)


def _drawn(random: np.random.Generator, jobs: int, chances: Floats, draws: int) -> Floats:
    bunches, rest = divmod(jobs, JOBS_OF_A_DRAW)
    placed: Floats = JOBS_OF_A_DRAW * random.multinomial(bunches, chances, size=(2, draws)).astype(np.float64)
    if rest:
        placed += rest * random.multinomial(1, chances, size=(2, draws))
    return placed


def _joined(all_draws: Sequence[Draws]) -> list[Draws]:
    """Join whole bunches with the same chances into one draw; rests stay apart, as each is a draw of its own."""
    whole: dict[tuple[tuple[str, float], ...], int] = defaultdict(int)
    rests = []
    for draw in all_draws:
        rest = draw.jobs % JOBS_OF_A_DRAW
        whole[tuple(sorted(draw.chances.items()))] += draw.jobs - rest
        if rest:
            rests.append(Draws(rest, draw.chances))
    return [Draws(jobs, dict(chances)) for chances, jobs in whole.items() if jobs] + rests

"""Compare policies over seeds, with paired differences on the same draws, in parallel processes or on a cluster."""

from __future__ import annotations

import dataclasses
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from broker.brokerages.profile import Profile
from broker.compilation import worker_start
from broker.errors import BrokerError
from broker.simulation.model.figures import Stats
from broker.simulation.model.intervals import Interval, holm, interval, paired, seeds_to_find
from broker.simulation.model.loop import ClosedLoop, Run
from broker.simulation.model.merit import stats
from broker.simulation.model.policies.base import Factory, find_policy
from broker.simulation.model.real.several_vos import by_profile
from broker.simulation.model.running_figures import SummedFigures
from broker.simulation.model.scenario import Scenario

CONNECT_WITHIN = "10s"


class ScenarioOf(Protocol):
    """Makes the scenario of a seed; it must be picklable, as it is sent to other processes."""

    def __call__(self, seed: int) -> Scenario:
        """Return the scenario for a seed."""
        ...


@dataclass(frozen=True)
class Case:
    """One simulation: a policy with a seed; ``label`` distinguishes it from others of the same policy.

    Attributes:
        values: gdpconfig values that differ from the shipped tuning, for policies with a profile.
        profile: custom profile that replaces the policy of that name.
    """

    label: str
    policy: str
    seed: int
    scenario_of: ScenarioOf
    values: tuple[tuple[str, Any], ...] = ()
    profile: Profile | None = None


@dataclass(frozen=True)
class CaseResult:
    """The stored result of a simulation.

    Attributes:
        curves: curves by name, one value for each of ``hours``: use, waiting jobs, transfers waiting, WAN bytes so far.
    """

    label: str
    seed: int
    stats: Stats
    hours: tuple[float, ...]
    curves: dict[str, tuple[float, ...]]
    events: int
    decide_s: float
    total_s: float


def simulate_case(case: Case) -> CaseResult:
    """Run one simulation.

    Raises:
        SimulationError: its scenario cannot be simulated, or there is no such policy.
    """
    factory = find_policy(case.policy) if case.profile is None else partial(by_profile, profile=case.profile)
    values = dict(case.values)

    def make_policy(scenario: Scenario, seed: int) -> Any:
        return factory(scenario, seed, values=values) if values else factory(scenario, seed)  # type: ignore[call-arg]

    return simulate_with(case, make_policy)


def simulate_with(case: Case, factory: Factory) -> CaseResult:
    """Run one simulation with the policy that the factory makes.

    Raises:
        SimulationError: its scenario cannot be simulated.
    """
    scenario = case.scenario_of(case.seed)
    figures = None if scenario.coming is None else SummedFigures(scenario)
    run = ClosedLoop(scenario, factory, case.seed, figures=figures).run()
    hours, curves = _curves(run)
    return CaseResult(case.label, case.seed, stats(run), hours, curves, run.events, run.decide_s, run.total_s)


def _curves(run: Run) -> tuple[tuple[float, ...], dict[str, tuple[float, ...]]]:
    series = run.series
    sent_tb = _sent_tb(run) if run.figures is None else [sent / 1e12 for sent in run.figures.sent_bytes()]
    curves = {
        "use": tuple((series.busy_hs06 / series.up_hs06.clip(1e-9)).tolist()),
        "waiting jobs": tuple(series.waiting_jobs.tolist()),
        "transfers waiting": tuple(series.transfers_waiting.tolist()),
        "TB over the WAN": tuple(sent_tb[: len(series.time_s)]),
    }
    names = [name for name, _ in run.scenario.shares]
    total_hs06 = series.share_hs06.sum(axis=1).clip(1e-9)
    curves |= {
        f"share {name}": tuple((series.share_hs06[:, place] / total_hs06).tolist()) for place, name in enumerate(names)
    }
    return tuple((series.time_s / 3600.0).tolist()), curves


def _sent_tb(run: Run) -> list[float]:
    sent = sorted(zip(run.tally.wan_end_s, run.tally.wan_bytes, strict=True))
    totals_tb, total, place = [], 0.0, 0
    for time_s in run.series.time_s.tolist():
        while place < len(sent) and sent[place][0] <= time_s:
            total += sent[place][1]
            place += 1
        totals_tb.append(total / 1e12)
    return totals_tb


def simulate_all(
    cases: Sequence[Case],
    processes: int,
    emit: Callable[[int, CaseResult], None],
    dask: str | None = None,
    simulate: Callable[[Case], CaseResult] = simulate_case,
) -> list[CaseResult]:
    """Run all cases. Returns the results in the order of the cases.

    Args:
        cases: cases to run.
        processes: number of parallel processes; 1 runs them in the current one.
        emit: called with the position and the result of each case when it finishes.
        dask: address of a scheduler whose workers run the cases.
        simulate: runs one case; a function of a module, as it is sent to other processes.

    Raises:
        SimulationError: a scenario cannot be simulated.
        BrokerError: the cluster cannot be reached.
    """
    results: dict[int, CaseResult] = {}
    finished = _on_cluster(cases, dask, simulate) if dask is not None else _in_processes(cases, processes, simulate)
    for place, result in finished:
        results[place] = result
        emit(place, result)
    return [results[place] for place in range(len(cases))]


Finished = Iterator[tuple[int, CaseResult]]


def _in_processes(cases: Sequence[Case], processes: int, simulate: Callable[[Case], CaseResult]) -> Finished:
    """Yield the position and the result of each case as it finishes."""
    if processes == 1 or len(cases) <= 1:
        yield from enumerate(map(simulate, cases))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(cases)), context, worker_start.install) as pool:
        places = {pool.submit(simulate, case): place for place, case in enumerate(cases)}
        try:
            for future in as_completed(places):
                yield places[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _on_cluster(cases: Sequence[Case], address: str, simulate: Callable[[Case], CaseResult]) -> Finished:
    try:
        import distributed
    except ImportError as error:
        raise BrokerError(
            f"a cluster needs the package {error.name}", "--dask", "install it: pip install 'gridbroker[dask]'"
        ) from error
    connect: Any = distributed.Client
    try:
        client = connect(address, timeout=CONNECT_WITHIN, set_as_default=False)
    except (OSError, ValueError) as error:
        raise BrokerError("nobody answers at the address of the cluster", address, "start the scheduler") from error
    with client:
        places = {future: place for place, future in enumerate(client.map(simulate, cases, pure=False))}
        ended: Any = distributed.as_completed
        for future in ended(list(places)):
            yield places[future], future.result()


@dataclass(frozen=True)
class Comparison:
    """The figures of one policy over all seeds, and how they differ from those of the first.

    Attributes:
        means: the interval of each figure, by name.
        differences: difference of each figure from that of the first policy, paired by seed; empty for the first.
        significant: figures whose difference is significant: primary ones by their own interval, the others after Holm
            over all of them and all policies.
        seeds_needed: number of seeds, for each primary figure, with which a difference of 2 % of the first policy's
            mean would be detected four times in five.
    """

    label: str
    seeds: tuple[int, ...]
    means: dict[str, Interval]
    differences: dict[str, Interval]
    significant: frozenset[str] = frozenset()
    seeds_needed: dict[str, int] = field(default_factory=dict)


#: The figures that decide, fixed before any run, and the smallest relative difference that matters.
PRIMARY = ("delivered", "finish_mean_s")
SMALLEST_EFFECT = 0.02


def compare(results: Iterable[CaseResult]) -> list[Comparison]:
    """Compare the results by label, in the order in which labels first appear; only seeds common to all count."""
    by_label: dict[str, dict[int, dict[str, float]]] = {}
    for result in results:
        by_label.setdefault(result.label, {})[result.seed] = result.stats.as_dict()
    seeds = tuple(sorted(set.intersection(*(set(by_seed) for by_seed in by_label.values())))) if by_label else ()
    columns = {
        label: {name: [by_seed[seed][name] for seed in seeds] for name in Stats.__dataclass_fields__}
        for label, by_seed in by_label.items()
    }
    first = next(iter(columns.values()), {})
    compared = [
        Comparison(
            label=label,
            seeds=seeds,
            means={name: interval(values) for name, values in own.items()},
            differences={} if own is first else {n: paired(values, first[n]) for n, values in own.items()},
        )
        for label, own in columns.items()
    ]
    secondary = holm(
        {(one.label, name): d.p_value for one in compared for name, d in one.differences.items() if name not in PRIMARY}
    )
    return [_judged(one, compared[0], secondary) for one in compared]


def _judged(own: Comparison, first: Comparison, secondary: frozenset[tuple[str, str]]) -> Comparison:
    significant = {name for label, name in secondary if label == own.label}
    significant |= {name for name in PRIMARY if name in own.differences and own.differences[name].excludes_zero}
    needed = {}
    for name in PRIMARY:
        wanted = abs(first.means[name].mean) * SMALLEST_EFFECT
        count = seeds_to_find(own.differences[name], wanted) if name in own.differences else None
        if count is not None:
            needed[name] = count
    return dataclasses.replace(own, significant=frozenset(significant), seeds_needed=needed)

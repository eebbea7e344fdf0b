"""How good forecasts of starts are in the closed loop with drift: coverage, and loss against the usual wait.

The code of the agents (profile ``seed``) steers a simulated grid whose load rises and falls and whose queues fail. At
each hour the agent's code makes forecasts from what is known then; they are judged by what happened, except in the
first days, while the load is new to the agent.
``python -m benchmarks.bench_forecasts [--first 1] [--seeds 10] [--days 16] [--warm-up 8] [--cores 500]
[--processes 1] [--horizon 48]``.
With ``--rollouts N`` the work is also rolled out ahead N times at each look, and the same forecasts are reported with
and without the results of the roll-outs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

from benchmarks.forecast_world import TrackedSubject, instants, watched  # noqa: E402
from broker.domain.arrays import Floats, texts  # noqa: E402
from broker.forecasts.model.forecasting import LEVELS, Past, Settings, make_forecasts  # noqa: E402
from broker.forecasts.model.judging import JudgedForecasts, Verdict, verdicts  # noqa: E402
from broker.forecasts.model.subjects import columns_of  # noqa: E402
from broker.simulation.model.rolling_out import RollOutSettings  # noqa: E402


def told_of(
    noted: Sequence[TrackedSubject], settings: Settings, end_s: float, seed: int = 0, warm_up_s: float = 0.0
) -> JudgedForecasts:
    """Make forecasts at each look from what was known then, and pair them with the outcomes.

    Forecasts made during the warm-up are left out, and so are those made less than a horizon before the end, for which
    only short waits would be known.
    """
    subjects = columns_of([item.asked for item in noted])
    made_s, began_s = (np.array([getattr(item, name) for item in noted]) for name in ("made_s", "began_s"))
    waited_s = np.minimum(np.array([item.waited_s for item in noted]), settings.horizon_s)
    is_known = np.array([item.is_known and item.waited_s < settings.horizon_s for item in noted], dtype=np.bool_)
    resolved_s = np.array([item.resolved_s for item in noted])
    told_s, usual_s = np.full((len(noted), len(LEVELS)), np.nan), np.full(len(noted), np.nan)
    for now in instants(noted):
        earlier, current = np.flatnonzero(made_s < now), np.flatnonzero(made_s == now)
        ended = resolved_s[earlier] <= now
        so_far = np.where(ended, waited_s[earlier], np.clip(now - began_s[earlier], 0.0, settings.horizon_s))
        past = Past(
            kind=subjects.kind[earlier], cell=subjects.cell[earlier], situation=subjects.situation[earlier],
            clues=subjects.clues[earlier], made_s=made_s[earlier], waited_s=so_far, is_known=is_known[earlier] & ended,
            quantiles_s=told_s[earlier],
        )  # fmt: skip
        questions = columns_of([noted[row].asked for row in current.tolist()])
        forecasts = make_forecasts(questions, past, float(now), settings)
        told_s[current], usual_s[current] = forecasts.quantiles_s, forecasts.usual_s
    judged_rows = np.flatnonzero((made_s >= warm_up_s) & (made_s <= end_s - settings.horizon_s))
    return JudgedForecasts(
        kind=subjects.kind[judged_rows],
        subject=texts(f"{seed} {noted[row].asked.subject}" for row in judged_rows.tolist()),
        quantiles_s=told_s[judged_rows],
        usual_s=usual_s[judged_rows],
        waited_s=waited_s[judged_rows],
        is_known=is_known[judged_rows],
        horizon_s=np.full(len(judged_rows), settings.horizon_s),
    )


@dataclass(frozen=True)
class Setup:
    """The settings of the runs.

    Attributes:
        days: virtual time of a run; its first ``warm_up_days`` are not judged.
        rolling: how work is rolled out; None: not at all.
    """

    days: float
    warm_up_days: float
    cores: int
    settings: Settings
    rolling: RollOutSettings | None = None


def one_seed(setup: Setup, seed: int) -> dict[str, JudgedForecasts]:
    """Make the forecasts of one run, without roll-outs and, if there are any, also with them."""
    noted = watched(seed, setup.days, setup.cores, rolling=setup.rolling)
    end_s, warm_up_s = setup.days * 86_400.0, setup.warm_up_days * 86_400.0
    forecasts = {"without": told_of(without_rollouts(noted), setup.settings, end_s, seed, warm_up_s)}
    if setup.rolling is not None:
        forecasts["rolled out"] = told_of(noted, setup.settings, end_s, seed, warm_up_s)
    return forecasts


def without_rollouts(noted: Sequence[TrackedSubject]) -> list[TrackedSubject]:
    """Remove the results of roll-outs from the subjects."""
    return [
        replace(item, asked=replace(item.asked, clues={**item.asked.clues, "rollout_s": np.nan})) for item in noted
    ]  # fmt: skip


def line(verdict: Verdict) -> str:
    """Format a verdict as a line of the table."""
    low, high = verdict.covered_between
    parts = (
        f"{verdict.name:10s} {verdict.told:6d} told",
        f"{verdict.resolved:6d} resolved",
        f"{verdict.censored:5d} censored",
        f"covered {100 * verdict.covered:5.1f} % ({100 * low:.1f} to {100 * high:.1f})",
        f"meant {100 * verdict.meant:.1f}",
        f"below {100 * verdict.below:4.1f}",
        f"above {100 * verdict.above:4.1f}",
        f"loss {verdict.loss_part:.2f} of the usual wait's, of its middle {verdict.middle_loss_part:.2f}",
    )
    return "  ".join(parts)


def combine(parts: Sequence[JudgedForecasts]) -> JudgedForecasts:
    """Combine several sets of forecasts into one."""
    columns: dict[str, Floats] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])
    }
    return JudgedForecasts(**columns)  # type: ignore[arg-type]


def main() -> None:
    """Print the verdicts on the forecasts: of all, by kind, by horizon, by whether p90 is known, and by seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1, help="seed")
    parser.add_argument("--days", type=float, default=16.0)
    parser.add_argument("--warm-up", type=float, default=8.0, help="days")
    parser.add_argument("--cores", type=int, default=500)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--horizon", type=float, default=48.0, help="hours")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--rollouts", type=int, default=0, help="of each look; 0 for none")
    options = parser.parse_args()
    if options.warm_up + options.horizon / 24.0 >= options.days:
        parser.error("nothing would be judged: --days must be more than --warm-up and --horizon together")
    settings = Settings(cases=options.cases, horizon_s=3600.0 * options.horizon)
    rolling = RollOutSettings(hours=12.0, seeds=options.rollouts) if options.rollouts else None
    setup = Setup(options.days, options.warm_up, options.cores, settings, rolling)
    with ProcessPoolExecutor(options.processes) as pool:
        by_seed = list(pool.map(partial(one_seed, setup), range(options.first, options.first + options.seeds)))
    for name in by_seed[0]:
        print(name, flush=True)
        combined = combine([forecasts[name] for forecasts in by_seed])
        for verdict in verdicts(combined):
            print(line(verdict), flush=True)
        for seed, forecasts in enumerate(by_seed, options.first):
            print(f"seed {seed:2d}: {line(verdicts(forecasts[name])[0])}", flush=True)


if __name__ == "__main__":
    main()

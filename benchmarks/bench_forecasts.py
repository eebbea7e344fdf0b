"""How good forecasts of starts are in the closed loop with drift: coverage, and loss against the usual wait.

A simulated grid is steered by the code of the agents (profile ``seed``); its load rises and falls, and queues fail. At
each hour forecasts are made from what is known then, by the code of the agent, and judged by what happened, but for
those of the first days, while the load is new to it.
``python -m benchmarks.bench_forecasts [--first 1] [--seeds 10] [--days 16] [--warm-up 8] [--cores 500]
[--processes 1] [--horizon 48]``.
With ``--rollouts 1`` the work is rolled out ahead at each look as well, so often, and the same forecasts are told with
and without what that says.
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

from benchmarks.forecast_world import Awaited, instants, watched  # noqa: E402
from broker.domain.arrays import Floats, texts  # noqa: E402
from broker.forecasts.model.forecasting import LEVELS, Past, Settings, make_forecasts  # noqa: E402
from broker.forecasts.model.judging import JudgedForecasts, Verdict, verdicts  # noqa: E402
from broker.forecasts.model.subjects import columns_of  # noqa: E402
from broker.simulation.model.rolling_out import Rolling  # noqa: E402


def told_of(
    noted: Sequence[Awaited], settings: Settings, end_s: float, seed: int = 0, warm_up_s: float = 0.0
) -> JudgedForecasts:
    """The forecasts of what was noted, made at each look from what was known then, with what came of them.

    Those that are made before the end of the warm-up are left out, and those that are made less than the horizon before
    the end: of the latter only short waits would be known.
    """
    subjects = columns_of([one.asked for one in noted])
    made, began = (np.array([getattr(one, name) for one in noted]) for name in ("made_s", "began_s"))
    waited = np.minimum(np.array([one.waited_s for one in noted]), settings.horizon_s)
    known = np.array([one.is_known and one.waited_s < settings.horizon_s for one in noted], dtype=np.bool_)
    resolved = np.array([one.resolved_s for one in noted])
    told, usual = np.full((len(noted), len(LEVELS)), np.nan), np.full(len(noted), np.nan)
    for now in instants(noted):
        before, here = np.flatnonzero(made < now), np.flatnonzero(made == now)
        over = resolved[before] <= now
        so_far = np.where(over, waited[before], np.clip(now - began[before], 0.0, settings.horizon_s))
        past = Past(
            kind=subjects.kind[before], cell=subjects.cell[before], situation=subjects.situation[before],
            clues=subjects.clues[before], made_s=made[before], waited_s=so_far, is_known=known[before] & over,
            told_s=told[before],
        )  # fmt: skip
        asked = columns_of([noted[row].asked for row in here.tolist()])
        found = make_forecasts(asked, past, float(now), settings)
        told[here], usual[here] = found.quantiles_s, found.usual_s
    whole = np.flatnonzero((made >= warm_up_s) & (made <= end_s - settings.horizon_s))
    return JudgedForecasts(
        kind=subjects.kind[whole],
        subject=texts(f"{seed} {noted[row].asked.subject}" for row in whole.tolist()),
        told_s=told[whole],
        usual_s=usual[whole],
        waited_s=waited[whole],
        is_known=known[whole],
        horizon_s=np.full(len(whole), settings.horizon_s),
    )


@dataclass(frozen=True)
class Wanted:
    """What is run.

    Attributes:
        days: of virtual time, of which the first ``warm_up_days`` are not judged.
        rolling: how work is rolled out; None for not at all.
    """

    days: float
    warm_up_days: float
    cores: int
    settings: Settings
    rolling: Rolling | None = None


def one_seed(wanted: Wanted, seed: int) -> dict[str, JudgedForecasts]:
    """The forecasts of one run; where work is rolled out, those without what that says, too."""
    noted = watched(seed, wanted.days, wanted.cores, rolling=wanted.rolling)
    end_s, warm_up_s = wanted.days * 86_400.0, wanted.warm_up_days * 86_400.0
    found = {"without": told_of(without_rollouts(noted), wanted.settings, end_s, seed, warm_up_s)}
    if wanted.rolling is not None:
        found["rolled out"] = told_of(noted, wanted.settings, end_s, seed, warm_up_s)
    return found


def without_rollouts(noted: Sequence[Awaited]) -> list[Awaited]:
    """The same without what roll-outs said."""
    return [
        replace(one, asked=replace(one.asked, clues={**one.asked.clues, "rollout_s": np.nan})) for one in noted
    ]  # fmt: skip


def line(verdict: Verdict) -> str:
    """A verdict as a line of the table."""
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


def together_of(found: Sequence[JudgedForecasts]) -> JudgedForecasts:
    """All of them in one."""
    columns: dict[str, Floats] = {
        name: np.concatenate([getattr(one, name) for one in found]) for name in vars(found[0])
    }
    return JudgedForecasts(**columns)  # type: ignore[arg-type]


def main() -> None:
    """Print what came of the forecasts: of all, by kind, by horizon, by whether p90 is known, and by seed."""
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
    given = parser.parse_args()
    if given.warm_up + given.horizon / 24.0 >= given.days:
        parser.error("nothing would be judged: --days must be more than --warm-up and --horizon together")
    settings = Settings(cases=given.cases, horizon_s=3600.0 * given.horizon)
    rolling = Rolling(hours=12.0, seeds=given.rollouts) if given.rollouts else None
    wanted = Wanted(given.days, given.warm_up, given.cores, settings, rolling)
    with ProcessPoolExecutor(given.processes) as pool:
        found = list(pool.map(partial(one_seed, wanted), range(given.first, given.first + given.seeds)))
    for name in found[0]:
        print(name, flush=True)
        together = together_of([one[name] for one in found])
        for verdict in verdicts(together):
            print(line(verdict), flush=True)
        for seed, one in enumerate(found, given.first):
            print(f"seed {seed:2d}: {line(verdicts(one[name])[0])}", flush=True)


if __name__ == "__main__":
    main()

"""The agent that forecasts when waiting work will start, and records the outcomes of its forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from time import perf_counter

import numpy as np
from pydantic import Field

from agents.brokerage.grid_reading import tuning_of
from agents.forecasts.rolling import Outcome, outcome_of, read_ahead
from agents.service import fault_points
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from agents.service.configuration import profile_in_force
from broker.forecasts.model.forecasting import Forecasts, Past, Settings, make_forecasts
from broker.forecasts.model.resolving import judge
from broker.forecasts.model.subjects import ForecastSubject, columns_of, rollout_clues, subjects_of, with_rollout
from broker.forecasts.statements.forecast_rows import (
    ForecastRow,
    LastForecast,
    last_forecasts,
    note_judged,
    open_forecasts,
    read_past,
    write_forecasts,
)
from broker.forecasts.statements.starts import seen_of, tracked_of
from broker.forecasts.statements.waiting_work import read_waiting
from broker.gdpconfig.tuning import Tuning
from broker.simulation.model.rolling_out import RollOutSettings
from broker.store.connection.tables import TableCatalogue

ON, HALF_LIFE = "FORECASTS", "FORECAST_HALF_LIFE"
ROLLOUT_BUDGET = "FORECAST_ROLLOUT_BUDGET"
CASES, HORIZON, STEP = "FORECAST_CASES", "FORECAST_HORIZON", "FORECAST_STEP"
_HALF_LIVES = 7
#: One forecast of each subject is judged in this time.
JUDGED_EVERY = timedelta(minutes=55)
#: Nothing is forecast for a queue whose status changed within this time.
SETTLES = timedelta(hours=1)


class ForecastsOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        most_tasks: maximum number of tasks with a forecast, newest first.
        window_hours: hours over which the rate of starts is taken.
        in_profile_panda: whether it works where the service runs the profile ``panda``.
        judged_of_a_cycle: open forecasts checked in one cycle, oldest first.
        rollout_hours: of virtual time that work is rolled out ahead, where ``FORECAST_ROLLOUT_BUDGET`` is not 0.
        rollout_seeds: maximum number of roll-outs, if the budget allows.
        rollout_cycle_s: of virtual time between two cycles of the brokerages in them.
        rollout_window_hours: work arrives in them as it arrived in this many hours before.
    """

    most_tasks: int = Field(default=2000, ge=1, le=100_000)
    window_hours: float = Field(default=2.0, gt=0, le=48)
    in_profile_panda: bool = False
    judged_of_a_cycle: int = Field(default=50_000, ge=1)
    rollout_hours: float = Field(default=12.0, ge=1, le=72)
    rollout_seeds: int = Field(default=3, ge=1, le=100)
    rollout_cycle_s: float = Field(default=120.0, ge=30, le=3600)
    rollout_window_hours: float = Field(default=6.0, gt=0, le=168)


class ForecastsAgent(Agent[ForecastsOptions]):
    """Forecasts p10, p50 and p90 of the next start of queues, tasks and kinds of tasks; judges past forecasts."""

    name = "forecasts"
    title = "when waiting work will start, and how accurate forecasts were"
    options_type = ForecastsOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Judge past forecasts, then make new ones."""
        started = perf_counter()
        tuning = tuning_of(context).tuning(None)
        if not tuning.flag(ON):
            return CycleReport(notes=(f"{ON} is off",))
        if self.process.profile == "panda" and not self.options.in_profile_panda:
            return CycleReport(notes=("off in the profile panda; in_profile_panda switches it on",))
        settings = settings_of(tuning)
        counts = self._judge(context, settings)
        judged_s = perf_counter() - started
        context.check()
        rolled = self._roll_out(context, tuning)
        rolled_s = perf_counter() - started - judged_s
        context.check()
        counts |= {**rolled.counts, **self._tell(context, settings, rolled)}
        timings = {"judge_s": judged_s, "rollout_s": rolled_s, "tell_s": perf_counter() - started - judged_s - rolled_s}
        return CycleReport(counts, timings, (f"no roll-out: {rolled.why_not}",) if rolled.why_not else ())

    def _roll_out(self, context: CycleContext, tuning: Tuning) -> Outcome:
        """What the roll-outs of this cycle say; half of the time left is kept for the rest."""
        budget_s = tuning.number(ROLLOUT_BUDGET)
        if budget_s <= 0:
            return Outcome()
        options = self.options
        how = RollOutSettings(
            options.rollout_hours, options.rollout_seeds, options.rollout_cycle_s, budget_s, context.seed
        )
        window = timedelta(hours=options.rollout_window_hours)
        ahead = read_ahead(context, window, profile_in_force(self.process), tuning.settings, how)
        return outcome_of(ahead, context.left_s / 2.0)

    def _judge(self, context: CycleContext, settings: Settings) -> dict[str, int]:
        with context.transaction() as connection:
            catalogue = TableCatalogue.read(connection, context.database.names)
            forecasts = open_forecasts(connection, self.options.judged_of_a_cycle)
            tracked = tracked_of(connection, catalogue, forecasts)
            seen = seen_of(connection, catalogue, forecasts, tracked)
            judged = [
                judge(one, tracked.get(one.id), seen.get(one.id), context.now, settings.horizon_s) for one in forecasts
            ]
            if context.writes:
                note_judged(connection, judged, context.now)
                fault_points.reach("after_write_before_commit")
        resolved = sum(one.outcome == "started" for one in judged)
        return {"open": sum(one.outcome is None and one.is_kept for one in judged), "resolved": resolved}

    def _tell(self, context: CycleContext, settings: Settings, rolled: Outcome) -> dict[str, int]:
        window = timedelta(hours=self.options.window_hours)
        with context.database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, context.database.names)
            waiting = read_waiting(connection, catalogue, context.now, window, self.options.most_tasks)
            since = context.now - timedelta(seconds=_HALF_LIVES * settings.half_life_s)
            past = read_past(connection, since, context.now)
            before = last_forecasts(connection)
        subjects = subjects_of(waiting, context.now, window.total_seconds())
        if rolled.rollout is not None:
            rollout = rolled.rollout
            subjects = with_rollout(subjects, rollout_clues(rollout.lines, rollout.tasks, rollout.kinds))
        forecasts = forecast_rows(subjects, past, before, context.now, settings)
        context.check()
        if context.writes:
            with context.writing() as connection:
                write_forecasts(connection, forecasts)
                fault_points.reach("after_write_before_commit")
        known = sum(one.quantiles_s is not None for one in forecasts)
        return {"told": len(forecasts), "known": known, "past": len(past)}


def settings_of(tuning: Tuning) -> Settings:
    """The settings of forecasts, from the tuning keys."""
    return Settings(
        half_life_s=3600.0 * tuning.number(HALF_LIFE),
        cases=int(tuning.number(CASES)),
        horizon_s=3600.0 * tuning.number(HORIZON),
        step=tuning.number(STEP),
    )


def forecast_rows(
    subjects: list[ForecastSubject],
    past: Past,
    before: Mapping[tuple[str, str], LastForecast],
    now: datetime,
    settings: Settings,
) -> list[ForecastRow]:
    """The forecasts of the subjects at ``now``. Pure."""
    columns = columns_of(subjects)
    forecasts = make_forecasts(columns, past, now.timestamp(), settings)
    return [
        _forecast_row(subject, row, forecasts, before.get((subject.kind, subject.subject)), now, settings)
        for row, subject in enumerate(subjects)
    ]


def _forecast_row(
    subject: ForecastSubject,
    row: int,
    forecasts: Forecasts,
    last: LastForecast | None,
    now: datetime,
    settings: Settings,
) -> ForecastRow:
    since = now - SETTLES if last is None else last.status_since if last.status == subject.status else now
    n, quantiles = int(forecasts.n[row]), forecasts.quantiles_s[row]
    unknown = ""
    if now - since < SETTLES:
        unknown = f"the status of the queue changed to {subject.status} within the hour"
    elif np.isnan(quantiles[1]):
        unknown = f"{n} forecasts of its kind have come true, {settings.cases} are needed"
    return ForecastRow(
        forecast_subject=subject,
        made_at=now,
        quantiles_s=None if unknown else tuple(quantiles.tolist()),
        horizon_s=settings.horizon_s,
        n=n,
        usual_s=None if np.isnan(forecasts.usual_s[row]) else float(forecasts.usual_s[row]),
        unknown=unknown,
        status_since=since,
        is_judged=last is None or last.judged_at is None or now - last.judged_at >= JUDGED_EVERY,
    )

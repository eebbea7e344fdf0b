"""The agent that measures each cycle of a job brokerage against the best placement of its jobs.

It reads what cycles have stored, after they ended, and works in a process of its own with low priority: no cycle waits
for it, and no decision reads what it writes.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
from pydantic import Field, field_validator

from agents.quality.measuring import (
    CannotMeasure,
    Chunk,
    MeasuredVo,
    PricedVo,
    lower_priority,
    measure_case,
    price_case,
)
from agents.service.base import Agent, AgentOptions, CycleContext, CycleReport
from agents.service.configuration import config_file, load, profile_in_force
from agents.service.names import NAMES
from broker.alongside.statements.panda_placements import read_placements
from broker.brokerages.job.brokerage import JobBrokerage
from broker.brokerages.registry import brokerage
from broker.errors import BrokerError
from broker.flow.model.flow_problem import FLOW_KEYS, TIME_LIMIT
from broker.flow.model.program import SolverMissing
from broker.flow.model.quality import Measured, Yardstick
from broker.flow.statements import quality_rows
from broker.flow.statements.quality_rows import QualityRow
from broker.gdpconfig.catalogue import Value, shipped_catalogue
from broker.store.connection.tables import TableCatalogue
from broker.store.decisions.stored_cycles import CycleKey, cycle_keys
from broker.store.gdpconfig_rows import TuningStore
from broker.whatif.model.cases import Case, ProfileRules
from broker.whatif.statements.case_rows import read_case

#: Figures of a measured cycle that its row holds unchanged.
SHOWN = ("jobs", "gb", "best_gb", "input_gb")
#: Calls a measuring function with a case, the seconds it may take, and whatever else it needs.
Measuring = Callable[..., Any]
#: What the yardstick always knows, whatever the tuning lets decisions know.
KNOWN: dict[str, Value] = {"LEARNED_CAPACITY": True}


class DecisionQualityOptions(AgentOptions):
    """Options of the agent.

    Attributes:
        lookback_min: older cycles are not measured.
        cycles: number measured at once, newest first.
        time_limit_s: for the program of one cycle, and for the cost of its rules together.
        rules: number of rules of a cycle for which the program is solved again; for others only a bound is known.
        panda_after_min: minutes after a cycle that only recorded its decisions until PanDA's placement of its chunks
            since is priced for comparison.
        prices: values of keys FLOW_* for measuring, instead of the shipped ones; those in force do not count.
        own_process: measure in a process of its own.
    """

    lookback_min: float = Field(default=60.0, gt=0, le=24 * 60)
    cycles: int = Field(default=6, ge=1, le=1000)
    time_limit_s: float = Field(default=60.0, gt=0, le=600)
    rules: int = Field(default=3, ge=0, le=100)
    panda_after_min: float = Field(default=15.0, gt=0, le=24 * 60)
    prices: dict[str, float] = Field(default_factory=dict)
    own_process: bool = True

    @field_validator("prices")
    @classmethod
    def _are_prices(cls, prices: dict[str, float]) -> dict[str, float]:
        wrong = sorted(set(prices) - (set(FLOW_KEYS) - {TIME_LIMIT, *KNOWN}))
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: no price of the program; see the keys FLOW_*")
        return prices


class DecisionQualityAgent(Agent[DecisionQualityOptions]):
    """Measures cycles that ended."""

    name = "decision_quality"
    title = "quality of decisions: each cycle against the best placement of its jobs"
    options_type = DecisionQualityOptions

    def cycle(self, context: CycleContext) -> CycleReport:
        """Measure the newest cycles that are not measured yet, each in a transaction of its own."""
        counts: Counter[str] = Counter(cycles=0, beside_panda=0, unreadable=0, left_out=0)
        keys, left_out = self._due(context)
        counts["left_out"] = left_out
        recorded = self._recorded(context)
        if not keys and not recorded:
            return CycleReport(dict(counts))
        try:
            with self._measuring(self._rules(), self.yardstick()) as measuring:
                work = [(key, "cycles", self._measured) for key in keys]
                for key, counted, measured in work + [(key, "beside_panda", self._priced) for key in recorded]:
                    context.check()
                    rows = measured(context, key, measuring)
                    counts[counted] += 1
                    counts["unreadable"] += any(one.state == "unreadable" for one in rows)
                    if context.writes:
                        with context.writing() as connection:
                            quality_rows.write(connection, rows)
        except SolverMissing as error:
            return CycleReport(dict(counts), notes=(f"nothing is measured: {error}",))
        return CycleReport(dict(counts))

    def yardstick(self) -> Yardstick:
        """The yardstick: shipped prices, overridden by those of the options."""
        catalogue = shipped_catalogue()
        prices: dict[str, Value] = dict(KNOWN)
        for name in FLOW_KEYS:
            default = catalogue.entry(name).default
            if name not in KNOWN and default is not None:
                prices[name] = default
        return Yardstick({**prices, **self.options.prices}, self.options.time_limit_s, self.options.rules)

    def _rules(self) -> ProfileRules:
        agents = load(config_file("agents.yaml", self.process.folder), NAMES).agents
        return ProfileRules(profile_in_force(self.process), {name: one.options for name, one in agents.items()})

    def _due(self, context: CycleContext) -> tuple[list[CycleKey], int]:
        """The cycles to be measured, oldest first, and how many are left out."""
        since = context.now - timedelta(minutes=self.options.lookback_min)
        names = [one.brokerage for one in profile_in_force(self.process).brokerages]
        of_jobs = [name for name in names if isinstance(brokerage(name), JobBrokerage)]
        with context.database.read_snapshot() as connection:
            keys = cycle_keys(connection, since=since, until=context.now, brokerages=of_jobs)
            known = quality_rows.measured(connection, since)
            runs = {key.origin.agent_run for key in keys if key.origin.agent_run is not None}
            ended = quality_rows.ended_runs(connection, runs)
        due = [
            key
            for key in keys
            if (key.brokerage, key.origin.decided_at, key.origin.tuning) not in known
            and (key.origin.agent_run is None or key.origin.agent_run in ended)
        ]
        newest = due[-self.options.cycles :]
        return newest, len(due) - len(newest)

    def _measured(self, context: CycleContext, key: CycleKey, measuring: Measuring) -> list[QualityRow]:
        """The rows of a cycle, one per VO."""
        row = _row(key, context.now)

        def measure() -> list[QualityRow]:
            measured: Sequence[MeasuredVo] = measuring(measure_case, self._case(context, key), context.left_s)
            return [with_figures(row, one) for one in measured]

        return _or_why_not(row, measure)

    def _priced(self, context: CycleContext, key: CycleKey, measuring: Measuring) -> list[QualityRow]:
        """PanDA's placement of a cycle's chunks next to ours, one row per VO."""
        row = dataclasses.replace(_row(key, context.now), placer="panda")

        def price() -> list[QualityRow]:
            placed = self._panda(context, key)
            priced: Sequence[PricedVo] = measuring(price_case, self._case(context, key), context.left_s, placed)
            return [beside_row(row, one) for one in priced]

        return _or_why_not(row, price)

    def _case(self, context: CycleContext, key: CycleKey) -> Case:
        with context.database.read_snapshot() as connection:
            return read_case(connection, key, partial(self._version, context, connection))

    def _panda(self, context: CycleContext, key: CycleKey) -> dict[Chunk, dict[str, int]]:
        """Jobs by queue that PanDA made from each chunk after a cycle decided."""
        since = key.origin.decided_at
        until = since + timedelta(minutes=self.options.panda_after_min)
        with context.database.read_snapshot() as connection:
            catalogue = TableCatalogue.read(connection, context.database.names)
            placements, _ = read_placements(connection, catalogue, since, until, since - timedelta(seconds=1))
        jobs_of_chunks: dict[Chunk, dict[str, int]] = {}
        for placement in placements:
            if placement.brokerage == key.brokerage:
                jobs = jobs_of_chunks.setdefault(placement.chunk, {})
                jobs[placement.queue] = jobs.get(placement.queue, 0) + placement.jobs
        return jobs_of_chunks

    def _recorded(self, context: CycleContext) -> list[CycleKey]:
        """The newest measured cycles that only recorded and are not compared with PanDA yet, oldest first."""
        until = context.now - timedelta(minutes=self.options.panda_after_min)
        since = until - timedelta(minutes=self.options.lookback_min)
        with context.database.read_snapshot() as connection:
            known = quality_rows.measured(connection, since)
            priced = quality_rows.measured(connection, since, placer="panda")
            keys = cycle_keys(connection, since=since, until=until)
            runs = {key.origin.agent_run for key in keys if key.origin.agent_run is not None}
            recorded = quality_rows.only_recorded(connection, runs)
        due = [
            key
            for key in keys
            if key.origin.agent_run in recorded
            and (cycle := (key.brokerage, key.origin.decided_at, key.origin.tuning)) in known
            and cycle not in priced
        ]
        return due[-self.options.cycles :]

    def _version(self, context: CycleContext, connection: sa.Connection, version: int) -> Any:
        return TuningStore(context.database.names).version(connection, version)

    @contextmanager
    def _measuring(self, rules: ProfileRules, yardstick: Yardstick) -> Iterator[Measuring]:
        """Yield what measures cases: another process, started once for all cases of this cycle."""
        if not self.options.own_process:
            yield lambda function, case, left_s, *more: function(case, rules, yardstick, *more)
            return
        pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), lower_priority)
        try:
            yield lambda function, case, left_s, *more: pool.submit(function, case, rules, yardstick, *more).result(
                max(0.1, left_s)
            )
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _or_why_not(row: QualityRow, measure: Callable[[], list[QualityRow]]) -> list[QualityRow]:
    """The rows that ``measure`` gives or, if it fails, the row with the reason."""
    try:
        return measure()
    except SolverMissing:
        raise
    except TimeoutError:
        return [dataclasses.replace(row, state="time_limit")]
    except (CannotMeasure, BrokerError) as error:
        return [dataclasses.replace(row, state="unreadable", details={"error": str(error)})]


def _row(key: CycleKey, now: datetime) -> QualityRow:
    origin = key.origin
    return QualityRow(
        key.brokerage, origin.decided_at, origin.tuning, "", "ours", origin.snapshot or "", now, 0.0, "nothing"
    )


def with_figures(row: QualityRow, one: MeasuredVo) -> QualityRow:
    """A row with the figures of one VO."""
    result = one.result
    named = dataclasses.replace(row, vo=one.vo, measure_s=round(one.seconds, 3))
    if not isinstance(result, Measured):
        return dataclasses.replace(named, state=result)
    return dataclasses.replace(
        named,
        state="measured",
        **{name: getattr(result, name) for name in SHOWN},
        cost_hs06h=result.cost.total,
        best_hs06h=result.best.total,
        left_hs06h=result.best.left_over,
        details=details_of(result),
    )


def beside_row(row: QualityRow, one: PricedVo) -> QualityRow:
    """A row with PanDA's placement beside ours."""
    comparison = one.comparison
    ours = vars(comparison.ours)
    details = {
        "chunks": comparison.chunks,
        "causes": {name: [round(ours[name], 3), round(value, 3)] for name, value in vars(comparison.panda).items()},
        "gb": [round(comparison.our_gb, 3), round(comparison.panda_gb, 3)],
        "unknown": dict(comparison.unknown),
    }
    jobs, seconds = round(comparison.jobs), round(one.seconds, 3)
    return dataclasses.replace(row, vo=one.vo, state="beside", jobs=jobs, measure_s=seconds, details=details)


def details_of(result: Measured) -> dict[str, Any]:
    """The details behind the figures: each cause as it is and at best, shares, queues, rules."""
    best = vars(result.best)
    return {
        "chunks": result.chunks,
        "placed": round(result.placed, 3),
        "even_hs06h": round(result.even_hs06h, 3),
        "causes": {name: [round(value, 3), round(best[name], 3)] for name, value in vars(result.cost).items()},
        "shares": [[one.share, one.jobs, round(one.regret_hs06h, 3)] for one in result.shares],
        "queues": [[one.queue, round(one.cores, 3), round(one.best_cores, 3)] for one in result.queues],
        "rules": [[one.rule, one.chunks, round(one.saved_hs06h, 3), one.is_bound] for one in result.rules],
        "solver": result.solver,
    }

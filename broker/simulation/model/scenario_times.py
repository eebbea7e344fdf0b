"""Checks of the times of a scenario, so that a simulation can run and comes to an end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from broker.simulation.model.errors import SimulationError

if TYPE_CHECKING:
    from broker.simulation.model.scenario import Scenario

#: Minimum seconds between two cycles or readings, and maximum days: beyond these a simulation would never end.
LEAST_PERIOD_S, MOST_DAYS = 0.1, 1000.0


def refuse(what: str, where: str, remedy: str) -> None:
    """Refuse a scenario.

    Raises:
        SimulationError: always.
    """
    raise SimulationError(what, where, remedy)


def check_times(scenario: Scenario) -> None:
    """Refuse times with which a simulation cannot run, or would never end.

    Raises:
        SimulationError: a time is out of range.
    """
    positive = {
        "days": scenario.days,
        "cycle_s": scenario.cycle_s,
        "task_cycle_s": scenario.task_cycle_s,
        "job_timeout_s": scenario.job_timeout_s,
        "heartbeat_s": scenario.heartbeat_s,
        "output_lifetime_s": scenario.output_lifetime_s,
    }
    for key, value in positive.items():
        if not (value > 0 and math.isfinite(value)):
            refuse(f"{key} is {value}", scenario.name, "give a positive number")
    ages, pilots = scenario.ages, scenario.pilots
    periods = {"cycle_s": scenario.cycle_s, "task_cycle_s": scenario.task_cycle_s}
    periods |= {f"ages.{key}": value for key, value in vars(ages).items() if key != "own_counters" and value > 0}
    for key, value in periods.items():
        if value < LEAST_PERIOD_S:
            refuse(f"{key} is {value}", scenario.name, f"take at least {LEAST_PERIOD_S} s: it would never end")
    if scenario.days > MOST_DAYS:
        refuse(f"days is {scenario.days}", scenario.name, f"simulate at most {MOST_DAYS:.0f} days")
    not_negative = {
        "warm_up_s": scenario.warm_up_s,
        "network_batch_s": scenario.network_batch_s,
        "drain_after_s": scenario.drain_after_s,
        **{f"ages.{key}": value for key, value in vars(ages).items() if key != "own_counters"},
        **{f"pilots.{key}": value for key, value in vars(pilots).items()},
    }
    for key, value in not_negative.items():
        if not (value >= 0 and math.isfinite(value)):
            refuse(f"{key} is {value}", scenario.name, "times are not negative")
    if scenario.warm_up_s >= scenario.end_s:
        refuse(
            f"the warm-up of {scenario.warm_up_s} s is not shorter than the {scenario.end_s} s simulated",
            scenario.name,
            "simulate more days, or warm up for less",
        )
    _check_tape(scenario)
    _check_workers(scenario)
    failures = scenario.transfer_failures
    if not all(0 <= rate <= 1 for rate in (failures.stage_in, *failures.links.values())) or scenario.scouts < 0:
        refuse("transfer_failures or scouts", scenario.name, "give rates from 0 to 1, and scouts not below 0")
    if scenario.attempts < 1 or scenario.transfers_a_link < 1:
        refuse("attempts and transfers_a_link are at least 1", scenario.name, "give a positive whole number")


def _check_tape(scenario: Scenario) -> None:
    tape = scenario.tape
    parts = 0 <= tape.part <= 1 and 0 <= tape.failure < 1 and 0 <= tape.spread < math.inf
    if not (parts and 0 < tape.median_s < math.inf and tape.requests_at_once >= 1):
        refuse("tape cannot be read so", scenario.name, "give a part from 0 to 1, a failure below 1, a time, a request")


def _check_workers(scenario: Scenario) -> None:
    workers = scenario.workers
    times = [workers.period_s, workers.wait_median_s, workers.wait_spread, workers.idle_s]
    times += [value for queue in scenario.queues for value in queue.worker_wait or ()]
    if not all(0 <= value < math.inf for value in times) or not workers.walltime_s >= 0:
        refuse("times of workers", scenario.name, "give seconds and spreads not below 0")
    if 0 < workers.period_s < LEAST_PERIOD_S:
        refuse(f"workers.period_s is {workers.period_s}", scenario.name, f"take 0, or at least {LEAST_PERIOD_S} s")
    if not 0 <= workers.lost <= 1:
        refuse(f"workers.lost is {workers.lost}", scenario.name, "give a part from 0 to 1")

"""Checks of a scenario before it is simulated, so that a simulation can run and comes to an end."""

from __future__ import annotations

import math
from graphlib import CycleError, TopologicalSorter

from broker.simulation.model.errors import SimulationError
from broker.simulation.model.scenario import VO, Scenario, Task, fits

#: Minimum seconds between two cycles or readings, and maximum days: beyond these a simulation would never end.
LEAST_PERIOD_S, MOST_DAYS = 0.1, 1000.0
#: Maximum jobs of a task and cores of a queue: beyond these a simulation would run out of memory.
MOST_JOBS, MOST_CORES = 1_000_000, 10_000_000


def check(scenario: Scenario) -> Scenario:
    """Return the scenario if it can be simulated.

    Raises:
        SimulationError: it cannot be simulated; the message names the entry and what to change.
    """
    _check_times(scenario)
    _check_sites(scenario)
    _check_queues(scenario)
    _check_tasks(scenario)
    return scenario


def _refuse(what: str, where: str, remedy: str) -> None:
    """Refuse a scenario.

    Raises:
        SimulationError: always.
    """
    raise SimulationError(what, where, remedy)


def _check_times(scenario: Scenario) -> None:
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
            _refuse(f"{key} is {value}", scenario.name, "give a positive number")
    ages, pilots = scenario.ages, scenario.pilots
    periods = {"cycle_s": scenario.cycle_s, "task_cycle_s": scenario.task_cycle_s}
    periods |= {f"ages.{key}": value for key, value in vars(ages).items() if key != "own_counters" and value > 0}
    for key, value in periods.items():
        if value < LEAST_PERIOD_S:
            _refuse(f"{key} is {value}", scenario.name, f"take at least {LEAST_PERIOD_S} s: it would never end")
    if scenario.days > MOST_DAYS:
        _refuse(f"days is {scenario.days}", scenario.name, f"simulate at most {MOST_DAYS:.0f} days")
    not_negative = {
        "warm_up_s": scenario.warm_up_s,
        "network_batch_s": scenario.network_batch_s,
        "drain_after_s": scenario.drain_after_s,
        **{f"ages.{key}": value for key, value in vars(ages).items() if key != "own_counters"},
        **{f"pilots.{key}": value for key, value in vars(pilots).items()},
    }
    for key, value in not_negative.items():
        if not (value >= 0 and math.isfinite(value)):
            _refuse(f"{key} is {value}", scenario.name, "times are not negative")
    if scenario.warm_up_s >= scenario.end_s:
        _refuse(
            f"the warm-up of {scenario.warm_up_s} s is not shorter than the {scenario.end_s} s simulated",
            scenario.name,
            "simulate more days, or warm up for less",
        )
    _check_tape(scenario)
    _check_workers(scenario)
    failures = scenario.transfer_failures
    if not all(0 <= rate <= 1 for rate in (failures.stage_in, *failures.links.values())) or scenario.scouts < 0:
        _refuse("transfer_failures or scouts", scenario.name, "give rates from 0 to 1, and scouts not below 0")
    if scenario.attempts < 1 or scenario.transfers_a_link < 1:
        _refuse("attempts and transfers_a_link are at least 1", scenario.name, "give a positive whole number")


def _check_tape(scenario: Scenario) -> None:
    tape = scenario.tape
    parts = 0 <= tape.part <= 1 and 0 <= tape.failure < 1 and 0 <= tape.spread < math.inf
    if not (parts and 0 < tape.median_s < math.inf and tape.requests_at_once >= 1):
        _refuse(
            "tape cannot be read so", scenario.name, "give a part from 0 to 1, a failure below 1, a time, a request"
        )


def _check_workers(scenario: Scenario) -> None:
    workers = scenario.workers
    times = [workers.period_s, workers.wait_median_s, workers.wait_spread, workers.idle_s]
    times += [value for queue in scenario.queues for value in queue.worker_wait or ()]
    if not all(0 <= value < math.inf for value in times) or not workers.walltime_s >= 0:
        _refuse("times of workers", scenario.name, "give seconds and spreads not below 0")
    if 0 < workers.period_s < LEAST_PERIOD_S:
        _refuse(f"workers.period_s is {workers.period_s}", scenario.name, f"take 0, or at least {LEAST_PERIOD_S} s")
    if not 0 <= workers.lost <= 1:
        _refuse(f"workers.lost is {workers.lost}", scenario.name, "give a part from 0 to 1")


def _check_sites(scenario: Scenario) -> None:
    if not scenario.sites or not any(site.is_nucleus for site in scenario.sites):
        _refuse("no site is a nucleus", scenario.name, "output needs somewhere to go: make one a nucleus")
    for site in scenario.sites:
        if not (site.storage_out > 0 and site.storage_in > 0):
            _refuse("a storage without bandwidth", f"site {site.name}", "give positive bytes/s in and out")
        if not 0 <= site.storage_used <= site.storage_total:
            _refuse("used space is not between 0 and the total", f"site {site.name}", "correct the space")
    if not scenario.default_link_bytes_s > 0:
        _refuse("a link without bandwidth", "default_link_bytes_s", "give positive bytes/s")
    known = range(len(scenario.sites))
    for outage in scenario.transfer_outages:
        if {*outage.sites, *(site for link in outage.links for site in link)} - set(known):
            _refuse("an outage of a storage or link that does not exist", scenario.name, "name sites by position")
        if not 0 <= outage.start_s < outage.end_s:
            _refuse(f"an outage from {outage.start_s} to {outage.end_s} s", scenario.name, "it ends after it starts")
    for (source, target), value in scenario.link_bytes_s.items():
        if source not in known or target not in known:
            _refuse(f"a link from site {source} to site {target}", scenario.name, "name sites of the scenario")
        if not value > 0:
            names = f"link {scenario.sites[source].name} to {scenario.sites[target].name}"
            _refuse("a link without bandwidth", names, "give positive bytes/s")


def _check_queues(scenario: Scenario) -> None:
    if sum(queue.cores for queue in scenario.queues) <= 0:
        _refuse("no queue has any cores", scenario.name, "a grid without capacity cannot run work")
    for queue in scenario.queues:
        where = f"queue {queue.name}"
        if queue.nodes < 0 or queue.node_cores < 0 or queue.node_memory_gb < 0:
            _refuse("negative capacity", where, "correct nodes, cores and memory")
        if queue.cores > MOST_CORES:
            _refuse(f"{queue.cores} cores", where, f"a queue has at most {MOST_CORES}")
        if not (0 < queue.corepower < math.inf and 0 < queue.hidden_speed < math.inf):
            _refuse("core power or speed is not positive", where, "give HS06 a core, such as 10")
        if not (0 <= queue.failure_rate <= 1 and 0 < queue.fails_after <= 1):
            _refuse("failure_rate or fails_after is no probability", where, "give numbers from 0 to 1")
        if not all(0 < factor < math.inf for factor in queue.efficiency_of_type.values()):
            _refuse("efficiency_of_type is not positive", where, "give factors such as 0.9")
        if not 0 <= queue.site < len(scenario.sites):
            _refuse(f"there is no site {queue.site}", where, "name a site of the scenario")
    for outage in scenario.outages:
        if set(outage.queues) - set(range(len(scenario.queues))):
            _refuse("an outage of a queue that does not exist", scenario.name, "name queues by position, from 0")
        if not 0 <= outage.start_s < outage.end_s:
            _refuse(f"an outage from {outage.start_s} to {outage.end_s} s", scenario.name, "it ends after it starts")


def _check_tasks(scenario: Scenario) -> None:
    numbers = {task.number for task in scenario.tasks}
    if len(numbers) != len(scenario.tasks):
        _refuse("two tasks have the same number", scenario.name, "number them distinctly")
    for task in scenario.tasks:
        check_task(scenario, task)
        if set(task.parents) - numbers:
            _refuse("a parent that does not exist", f"task {task.number}", "name tasks of the scenario")
    try:
        list(TopologicalSorter({task.number: task.parents for task in scenario.tasks}).static_order())
    except CycleError as error:
        chain = " -> ".join(str(number) for number in error.args[1])
        _refuse("a full chain that waits for itself", f"tasks {chain}", "remove one of these parents")
    _check_fit(scenario)


def check_task(scenario: Scenario, task: Task) -> Task:
    """Return the task if it can be simulated in the scenario; its number and parents are not checked.

    Raises:
        SimulationError: it cannot be simulated.
    """
    where = f"task {task.number}"
    if task.kind not in scenario.kinds:
        _refuse(f"no kind of job is called {task.kind}", where, f"take one of {', '.join(scenario.kinds)}")
    if task.jobs > MOST_JOBS:
        _refuse(f"{task.jobs} jobs", where, f"a task has at most {MOST_JOBS}: make several")
    if set(task.sources) - set(range(len(scenario.sites))):
        _refuse("input at a site that does not exist", where, "name sites by position, from 0")
    if not 0 < task.believed_factor < math.inf or not math.isfinite(task.priority) or task.user < 0:
        _refuse("believed_factor, priority or user", where, "give a positive factor, a number, a user from 0 on")
    if task.jobs < 1 or not task.arrival_s >= 0:
        _refuse(f"{task.jobs} jobs at {task.arrival_s} s", where, "give at least one job and a time not below 0")
    if not 0 <= task.share < len(scenario.shares):
        _refuse(f"there is no share {task.share}", where, "name a share of the scenario")
    if task.vo != scenario.vo_of(task.share):
        name = scenario.shares[task.share][0]
        _refuse(
            f"VO {task.vo}, and share {name} of VO {scenario.vo_of(task.share)}", where, "give share_vos, or another"
        )
    if not (0 < task.work_factor < math.inf and 0 < task.memory_factor < math.inf and 0 <= task.failure_rate <= 1):
        _refuse("work_factor, memory_factor or failure_rate", where, "give positive factors, a rate from 0 to 1")
    if not -1 <= task.running_at < len(scenario.queues):
        _refuse(f"there is no queue {task.running_at}", where, "name a queue by position, from 0")
    if task.running_at >= 0 and not scenario.queues[task.running_at].takes(task.vo):
        _refuse(f"queue {scenario.queues[task.running_at].name} takes no jobs of {task.vo}", where, "name another")
    return task


def _check_fit(scenario: Scenario) -> None:
    for name, vo in sorted({(task.kind, task.vo) for task in scenario.tasks}):
        kind = scenario.kinds[name]
        if not any(fits(queue, kind) and queue.takes(vo) for queue in scenario.queues):
            taking_vo = "" if vo == VO else f" that takes VO {vo}"
            needs = f"{kind.cores} cores and {kind.cores * kind.memory_gb_core:g} GB"
            _refuse(
                f"jobs of kind {name} fit no queue{taking_vo}: {needs}",
                scenario.name,
                "give a queue a node of that size, or remove the tasks of that kind",
            )

"""The records of a simulation: every run of a job, and totals, from which the figures of merit are computed."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from broker.domain.arrays import Floats, Ints

Outcome = Literal["finished", "failed", "lost", "timed_out", "unfinished"]
OUTCOMES: tuple[Outcome, ...] = ("finished", "failed", "lost", "timed_out", "unfinished")


#: Columns of a run that are not integers.
TIMES = ("assigned_s", "start_s", "end_s", "execution_s", "efficiency", "hs06s")


class RunLog:
    """Runs of jobs as they end, numbered from 0; the first may have been dropped."""

    def __init__(self) -> None:
        self._dropped = 0
        self._analysis = array("b")
        self._numbers = {name: array("q") for name in ("task", "queue", "share", "user", "cores", "outcome")}
        self._times = {name: array("d") for name in TIMES}

    def add(
        self,
        *,
        task: int,
        queue: int,
        share: int,
        user: int,
        cores: int,
        outcome: Outcome,
        assigned_s: float,
        start_s: float,
        end_s: float,
        execution_s: float,
        efficiency: float,
        hs06s: float,
        analysis: bool = False,
    ) -> None:
        """Add one run; ``hs06s`` is cores times published core power times walltime."""
        self._analysis.append(analysis)
        numbers, times = self._numbers, self._times
        numbers["task"].append(task)
        numbers["queue"].append(queue)
        numbers["share"].append(share)
        numbers["user"].append(user)
        numbers["cores"].append(cores)
        numbers["outcome"].append(OUTCOMES.index(outcome))
        times["assigned_s"].append(assigned_s)
        times["start_s"].append(start_s)
        times["end_s"].append(end_s)
        times["execution_s"].append(execution_s)
        times["efficiency"].append(efficiency)
        times["hs06s"].append(hs06s)

    def __len__(self) -> int:
        return self._dropped + len(self._analysis)

    @property
    def retained(self) -> int:
        """Number of runs that have not been dropped."""
        return len(self._analysis)

    def ends(self, first: int, last: int) -> Iterator[tuple[int, int, Outcome, float, float, bool]]:
        """Task, queue, outcome, start, end (s) and whether it is analysis, of a range of runs ordered by their ends.

        Raises:
            IndexError: the first has been dropped.
        """
        numbers, times = self._numbers, self._times
        columns = (numbers["task"], numbers["queue"], numbers["outcome"], times["start_s"], times["end_s"])
        cut = slice(self._place(first), self._place(last))
        for task, queue, outcome, start_s, end_s, analysis in zip(
            *(column[cut] for column in columns), self._analysis[cut], strict=True
        ):
            yield task, queue, OUTCOMES[outcome], start_s, end_s, bool(analysis)

    def columns(self, first: int | None = None) -> RunColumns:
        """The retained runs, or those from ``first`` on, as columns.

        Raises:
            IndexError: the first has been dropped.
        """
        cut = slice(0 if first is None else self._place(first), None)
        numbers, times = self._numbers.items(), self._times.items()
        columns: dict[str, Any] = {name: np.array(column[cut], dtype=np.int64) for name, column in numbers}
        columns |= {name: np.array(column[cut], dtype=np.float64) for name, column in times}
        return RunColumns(**columns)

    def drop(self, before: int) -> None:
        """Forget the runs before a number."""
        cut = slice(0, max(0, before - self._dropped))
        del self._analysis[cut]
        for numbers in self._numbers.values():
            del numbers[cut]
        for times in self._times.values():
            del times[cut]
        self._dropped = max(self._dropped, before)

    def _place(self, number: int) -> int:
        if number < self._dropped:
            raise IndexError(f"run {number} has been dropped; the first kept is {self._dropped}")
        return number - self._dropped


@dataclass(frozen=True)
class RunColumns:
    """Runs of jobs (length R); ``outcome`` points into OUTCOMES."""

    task: Ints
    queue: Ints
    share: Ints
    user: Ints
    cores: Ints
    outcome: Ints
    assigned_s: Floats
    start_s: Floats
    end_s: Floats
    execution_s: Floats
    efficiency: Floats
    hs06s: Floats

    def __len__(self) -> int:
        return len(self.task)

    def of(self, *outcomes: Outcome) -> Ints:
        """Positions of the runs with one of these outcomes."""
        return np.flatnonzero(np.isin(self.outcome, [OUTCOMES.index(outcome) for outcome in outcomes]))


@dataclass
class MemoryTally:
    """Memory that jobs held and used, in GB h; how many jobs ran, and how many were killed for memory."""

    requested_gb_h: float = 0.0
    used_gb_h: float = 0.0
    ran: int = 0
    killed: int = 0


@dataclass
class Tally:
    """Totals that grow during a simulation, from its beginning.

    Bytes over the WAN are recorded with the instant at which a transfer ended, memory with the hour in which jobs
    started, 0 for jobs that run from the beginning.
    """

    wan_end_s: array[float] = field(default_factory=lambda: array("d"))
    wan_bytes: array[float] = field(default_factory=lambda: array("d"))
    rebrokered: int = 0
    returned: int = 0
    timed_out: int = 0
    failed_attempts: int = 0
    failed_jobs: int = 0
    no_space: int = 0
    over_memory: int = 0
    over_walltime: int = 0
    memory: dict[int, MemoryTally] = field(default_factory=lambda: defaultdict(MemoryTally))
    failed_stage_ins: int = 0
    failed_transfers: int = 0
    wasted_bytes: float = 0.0
    broken_tasks: int = 0
    recalled_files: int = 0
    failed_recalls: int = 0
    lost: int = 0
    workers: int = 0
    empty_workers: int = 0
    lost_workers: int = 0
    cycles: int = 0
    empty_cycles: int = 0
    decided_chunks: int = 0
    assigned_jobs: int = 0
    fallbacks: int = 0
    idle_waiting_hs06s: float = 0.0

    def sent(self, now_s: float, size: float) -> None:
        """Count a transfer between sites."""
        self.wan_end_s.append(now_s)
        self.wan_bytes.append(size)


@dataclass(frozen=True)
class Series:
    """States of the grid at regular instants (length N)."""

    time_s: Floats
    busy_hs06: Floats
    up_hs06: Floats
    waiting_jobs: Floats
    transfers_waiting: Floats
    share_hs06: Floats  # (N, S)
    share_demand: Floats  # (N, S): jobs that run or wait

"""Enough of the input must be at the nucleus, by volume."""

from __future__ import annotations

from typing import Any

from broker.rules.contract import Bools, Floats, Reason, TaskPairs, TuningView
from broker.rules.production_task.data_locality import (
    INSIZE,
    SIZE_FRACTION,
    InputShareRule,
    LocalityOptions,
    has_enough_bytes,
)
from broker.snapshot.snapshot import Snapshot


class Insize(InputShareRule):
    """Rejects nuclei with too small a part of the input, by volume, for input above the threshold.

    Disk and tape count. Not for input that is staged to where some of it is, nor for tasks that have waited for a
    nucleus too long; and not when no nucleus has enough and the task may go anywhere. Source: ATLAS Production Task
    Brokerage, data locality.
    """

    name = INSIZE
    reason = Reason(
        code="insize",
        title="Enough of the volume of the input is at the nucleus",
        violation="Too little of the volume of the input is at the nucleus",
        no_candidate="has enough of the volume of the input",
        who="ask",
        cure="The data operators copy the input to a nucleus, or operators change `INPUT_SIZE_THRESHOLD` or "
        "`INPUT_SIZE_FRACTION`. After some days of waiting (`DATA_LOCATION_CHECK_PERIOD`) the task may go "
        "anywhere.",
    )
    fraction_key = SIZE_FRACTION
    total = "total_bytes"
    options: LocalityOptions = LocalityOptions()

    def prepare(self, snapshot: Snapshot, work: Any, tuning: TuningView) -> LocalityOptions | None:
        """The options, for the other rules on input; None if they are the shipped ones."""
        return self.options if self.chosen else None

    def enough(self, pairs: TaskPairs) -> Bools:
        """(T, N): whether the nucleus has more than the fraction of all bytes."""
        return has_enough_bytes(pairs.tasks, pairs.facts, pairs.tuning, self.options)

    def amounts(self, pairs: TaskPairs) -> tuple[Floats, Floats]:
        """Bytes of the input: (T, N) at the nucleus, (T, 1) in all."""
        return pairs.facts.any_bytes, pairs.facts.total_bytes

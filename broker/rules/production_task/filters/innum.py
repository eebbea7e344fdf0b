"""Enough of the input must be at the nucleus, by number of files."""

from __future__ import annotations

from broker.rules.contract import Bools, Floats, Reason, TaskPairs
from broker.rules.production_task.data_locality import (
    NUMBER_FRACTION,
    InputShareRule,
    has_enough_files,
    locality_options,
)


class Innum(InputShareRule):
    """Rejects nuclei with too small a part of the input, by number of files, for input above the threshold.

    Disk and tape count. Not for input that is staged to where some of it is, nor for tasks that have waited for a
    nucleus too long; and not when no nucleus has enough and the task may go anywhere. Source: ATLAS Production Task
    Brokerage, data locality.
    """

    name = "innum"
    reason = Reason(
        code="innum",
        title="Enough files of the input are at the nucleus",
        violation="Too few files of the input are at the nucleus",
        no_candidate="has enough files of the input",
        who="ask",
        cure="The data operators copy the input to a nucleus, or operators change `INPUT_NUM_THRESHOLD` or "
        "`INPUT_NUM_FRACTION`. After some days of waiting (`DATA_LOCATION_CHECK_PERIOD`) the task may go "
        "anywhere.",
    )
    fraction_key = NUMBER_FRACTION
    total = "total_files"

    def enough(self, pairs: TaskPairs) -> Bools:
        """(T, N): whether the nucleus has more than the fraction of all files."""
        return has_enough_files(pairs.tasks, pairs.facts, pairs.tuning, locality_options(pairs))

    def amounts(self, pairs: TaskPairs) -> tuple[Floats, Floats]:
        """Number of input files: (T, N) at the nucleus, (T, 1) in all."""
        return pairs.facts.any_files, pairs.facts.total_files

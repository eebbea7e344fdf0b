"""Nuclei with little to do are better."""

from __future__ import annotations

from typing import Literal

import numpy as np

from broker.rules.contract import CompiledStep, Floats, NucleusLoadWeight, Options

#: rwOffset. Source: ATLAS Production Task Brokerage, weight.
LEAST_HS06S = 50.0


class RemainingWorkOptions(Options):
    """Below 50 HS06 s the factor is that of 50, or 1."""

    below_least: Literal["as_least", "one"] = "as_least"


class RemainingWork(NucleusLoadWeight):
    """1 / max(50, RW): RW is the work of the task's share at its priority and above, placed tasks included.

    Source: ATLAS Production Task Brokerage, weight.
    """

    name = "remaining_work"
    code = "remaining_work"
    options: RemainingWorkOptions = RemainingWorkOptions()
    least_hs06s: float = LEAST_HS06S
    title = "Little work of the share remains at the nucleus"

    @property
    def compiled_step(self) -> CompiledStep:
        """The step for the chosen reading of work below the minimum."""
        name = "remaining_work" if self.options.below_least == "as_least" else "remaining_work_from_least"
        return CompiledStep(name, {"least_hs06s": self.least_hs06s})

    def factor(self, remaining_work_hs06s: Floats) -> Floats:
        """The factor in the same shape, from 0 to 1 / least; smaller the more work remains."""
        factor = 1.0 / np.maximum(self.least_hs06s, remaining_work_hs06s)
        if self.options.below_least == "one":
            factor = np.where(remaining_work_hs06s >= self.least_hs06s, factor, 1.0)
        return np.asarray(factor)

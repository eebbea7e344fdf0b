"""Which queue gets which jobs: chunk after chunk by weight, or by another placement that the profile names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from broker.rules.contract import Options, Reason, Step


class PlacementOptions(Options):
    """How the jobs of a cycle are given to queues.

    Attributes:
        by: ``weight``: chunk after chunk, drawn by weight among the ten best; or the name of a placement that an
            installed distribution offers as a step.
    """

    by: Literal["weight"] = "weight"


class Placement(Step):
    """Which queue gets how many jobs of each chunk; this one goes by weight.

    A placement of another kind is a :class:`broker.brokerages.job.joint_placement.JointPlacement`.

    Attributes:
        by: its name in profiles.
        together: the chunks of a cycle are decided together, and each meets the grid of the snapshot.
        left_over: of a placement that decides together: the reason of a chunk no queue gets jobs of.
    """

    name = "placement"
    title = "How the jobs of a cycle are given to queues"
    named_by = "by"
    by: ClassVar[str] = "weight"
    together: ClassVar[bool] = False
    left_over: ClassVar[str] = ""
    options: Options = PlacementOptions()

    @property
    def codes(self) -> tuple[str, ...]:
        """The reason codes that follow those of the ranking."""
        return tuple(reason.code for reason in self.gives)

    def knows(self, codes: Iterable[str]) -> bool:
        """Whether it gives each of the codes, so that a stored plan with them may be its own; an empty code is none."""
        return {code for code in codes if code} <= set(self.codes)

    def reason(self, code: str) -> Reason | None:
        """The reason with one of the :attr:`codes`; None for another code."""
        return next((reason for reason in self.gives if reason.code == code), None)

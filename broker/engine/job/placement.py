"""Who gets which jobs: one chunk after the other by weight, or all chunks of a cycle together by one program."""

from __future__ import annotations

from typing import Literal

from broker.rules.contract import Options, Step
from broker.snapshot.sources.global_share_targets import SHARE_TARGETS

#: Why a feasible queue got no job of a chunk, in the order of ``broker.flow.cycle.CAUSES``; the last for a chunk of
#: which jobs are left over.
FLOW_CODES = (
    "flow_dearer",
    "flow_wait",
    "flow_queue_full",
    "flow_link_full",
    "flow_output_link_full",
    "flow_share_debt",
    "flow_left_over",
)
LEFT_OVER = FLOW_CODES[-1]
_TOGETHER = "the jobs of the cycle were placed together:"
FLOW_TITLES = {
    "flow_dearer": f"{_TOGETHER} a job takes longer there, or moves more bytes",
    "flow_wait": f"{_TOGETHER} a job would wait longer there",
    "flow_queue_full": f"{_TOGETHER} others use the room of the share there better",
    "flow_link_full": f"{_TOGETHER} others use the input that the site may get better",
    "flow_output_link_full": f"{_TOGETHER} others use the link to the nucleus better",
    "flow_share_debt": f"{_TOGETHER} elsewhere the share gets more of what it lacks",
    LEFT_OVER: f"{_TOGETHER} room and links leave jobs of the chunk without a place",
}
#: What set the limit that binds, where one does.
FLOW_LIMITS = {
    "flow_queue_full": "NQUEUELIMITSITE",
    "flow_link_full": "FLOW_LINK_WINDOW",
    "flow_output_link_full": "NQUEUED_SAT_CAP",
    "flow_share_debt": "FLOW_SHARE_PRICE",
}
#: What is kept of each feasible queue: HS06 h by which a job more there is dearer than the best use, and its jobs.
FLOW_FIGURES = ("dearer_hs06h", "jobs")
FLOW = "flow"


class PlacementOptions(Options):
    """How the jobs of a cycle are given to queues.

    Attributes:
        by: ``weight``: chunk after chunk, drawn by weight among the ten best; ``flow``: all chunks, queues, links and
            shares in one linear program, over every queue that the filters and cuts leave.
    """

    by: Literal["weight", "flow"] = "weight"


class Placement(Step):
    """Which queue gets how many jobs of each chunk."""

    name = "placement"
    title = "How the jobs of a cycle are given to queues"
    options: PlacementOptions = PlacementOptions()

    @property
    def together(self) -> bool:
        """Whether the chunks of a cycle are decided together."""
        return self.options.by == FLOW

    @property
    def codes(self) -> tuple[str, ...]:
        """The reason codes that come behind those of the ranking."""
        return FLOW_CODES if self.together else ()

    def needed_sources(self) -> tuple[str, ...]:
        """The targets of shares, where what they lack counts."""
        return (SHARE_TARGETS,) if self.together else ()

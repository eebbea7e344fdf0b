"""Which queue gets which jobs: chunk after chunk by weight, or all chunks of a cycle in one linear program."""

from __future__ import annotations

from typing import Literal

from broker.rules.contract import Options, Reason, Step
from broker.snapshot.sources.global_share_targets import SHARE_TARGETS
from broker.snapshot.sources.queue_capacity import QUEUE_CAPACITY

_TOGETHER = "the jobs of the cycle were placed together:"
LEFT_OVER = "flow_left_over"
#: Why a feasible queue got no job of a chunk, in the order of ``flow.model.cycle.CAUSES``; the last for a chunk
#: with jobs left over.
FLOW_REASONS = (
    Reason(
        code="flow_dearer",
        title=f"{_TOGETHER} a job takes longer there, or moves more bytes",
        violation="a job takes longer there, or moves more bytes",
        no_candidate="is as quick and moves as few bytes as others",
        who="wait",
        cure="Nothing is wrong: the jobs went to queues that are cheaper for the grid.",
    ),
    Reason(
        code="flow_wait",
        title=f"{_TOGETHER} a job would wait longer there",
        violation="jobs would wait longer there",
        no_candidate="starts the jobs as soon as others",
        who="wait",
        cure="Nothing is wrong: the jobs start earlier elsewhere.",
    ),
    Reason(
        code="flow_queue_full",
        title=f"{_TOGETHER} others use the room of the share there better",
        violation="queue full: others use its room better",
        no_candidate="has room for more waiting jobs",
        who="wait",
        cure="Wait: the queue has room again as jobs start there. Operators may raise `NQUEUELIMITSITE`.",
        tuned_by="NQUEUELIMITSITE",
    ),
    Reason(
        code="flow_link_full",
        title=f"{_TOGETHER} others use the input that the site may get better",
        violation="link full: others use the input of the site better",
        no_candidate="may be sent more input",
        who="wait",
        cure="Wait: the site may get more input in the next cycle. Operators may change `FLOW_LINK_WINDOW`.",
        tuned_by="FLOW_LINK_WINDOW",
    ),
    Reason(
        code="flow_output_link_full",
        title=f"{_TOGETHER} others use the link to the nucleus better",
        violation="link full: others use the link to the nucleus better",
        no_candidate="may send more files to the nucleus",
        who="wait",
        cure="Wait until files have arrived at the nucleus. Operators may raise `NQUEUED_SAT_CAP`.",
        tuned_by="NQUEUED_SAT_CAP",
    ),
    Reason(
        code="flow_share_debt",
        title=f"{_TOGETHER} elsewhere the share gets more of what it lacks",
        violation="elsewhere the share gets more of what it lacks",
        no_candidate="gives the share more of what it lacks",
        who="wait",
        cure="Nothing is wrong: the share gets more elsewhere. Operators may change `FLOW_SHARE_PRICE`.",
        tuned_by="FLOW_SHARE_PRICE",
    ),
    Reason(
        code=LEFT_OVER,
        title=f"{_TOGETHER} room and links leave jobs of the chunk without a place",
        violation="left over: the limits leave jobs without a place",
        no_candidate="has room left after the jobs of the cycle were placed together",
        who="wait",
        cure="Wait for the next cycle: room and links are used up in this one.",
    ),
)
FLOW_CODES = tuple(reason.code for reason in FLOW_REASONS)
#: Figures kept for each feasible queue: HS06 h by which one more job is dearer there than the best use, and its jobs.
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
    gives = FLOW_REASONS
    options: PlacementOptions = PlacementOptions()

    @property
    def together(self) -> bool:
        """Whether the chunks of a cycle are decided together."""
        return self.options.by == FLOW

    @property
    def codes(self) -> tuple[str, ...]:
        """The reason codes that follow those of the ranking."""
        return FLOW_CODES if self.together else ()

    def reason(self, code: str) -> Reason | None:
        """The reason with one of the :attr:`codes`; None for another code."""
        return next((reason for reason in self.gives if reason.code == code and self.together), None)

    def needed_sources(self) -> tuple[str, ...]:
        """The targets of shares, where a missing share counts, and what queues can run."""
        return (SHARE_TARGETS, QUEUE_CAPACITY) if self.together else ()

"""Why decisions did not choose one queue, from packed reasons: without the names of all other candidates. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.codec.packed_reasons import FEASIBLE, Reasons, RejectedNames
from broker.domain.chosen_candidates import ChosenCandidates, Legend
from broker.domain.decisions import Candidate, Decision
from broker.domain.rejection_counts import RejectionCounts, rejection_counts, unified_of


def counts_of(decision: Decision) -> RejectionCounts:
    """The candidates of a decision by reason."""
    funnel = [(step.code, step.before, step.after) for step in decision.funnel]
    return rejection_counts(decision.rejected, funnel, [candidate.name for candidate in decision.candidates])


def codes_at(decisions: Sequence[Decision], queue: str) -> list[str | None]:
    """The reason for which each decision rejected a queue, as in ``by_queue`` of :func:`counts_of`.

    None where a pseudo-queue of it was chosen, or it was no candidate.
    """
    places: dict[Legend, PlaceInLegend | None] = {}
    codes = []
    for decision in decisions:
        reasons = decision.rejected.reasons if isinstance(decision.rejected, RejectedNames) else None
        place = None
        if reasons is not None and reasons.steps is None:
            if reasons.legend not in places:
                places[reasons.legend] = place_in(reasons.legend, queue)
            place = places[reasons.legend]
        if reasons is None or place is None or place.is_refused(reasons):
            codes.append(counts_of(decision).by_queue.get(queue))
        else:
            codes.append(None if place.is_chosen(decision.candidates) else place.code(reasons))
    return codes


@dataclass(frozen=True)
class PlaceInLegend:
    """The pseudo-queues of a queue in a legend, or a nucleus.

    Attributes:
        queue: the queue or nucleus.
        legend: the legend of which they are candidates.
        candidates: their positions, in order.
    """

    queue: str
    legend: Legend
    candidates: tuple[int, ...]

    def is_refused(self, reasons: Reasons) -> bool:
        """Whether names that stand for no candidate may change the reason; for nuclei, any such name may."""
        if not self.legend.groups:
            return bool(reasons.refused)
        return any(unified_of(name) == self.queue for name in reasons.refused)

    def is_chosen(self, chosen: Sequence[Candidate]) -> bool:
        """Whether one of these candidates is among the chosen ones."""
        if isinstance(chosen, ChosenCandidates):
            return not set(self.candidates).isdisjoint(chosen.place.tolist())
        return any(unified_of(one.name) == self.queue for one in chosen)

    def code(self, reasons: Reasons) -> str | None:
        """The code by which the last of these candidates was rejected; None if none was."""
        legend = self.legend
        steps: list[int] = reasons.position[list(self.candidates)].tolist()
        gone = [step for step in steps if step >= 0]
        left = FEASIBLE in steps
        if gone and not left:
            return legend.codes[
                max((legend.departure[step], at, step) for at, step in enumerate(steps) if step >= 0)[2]
            ]
        codes = {legend.codes[step] for step in gone}
        if left and reasons.blocked:
            codes.add(reasons.blocked)
        if len(codes) < 2:
            return next(iter(codes), None)
        order = [line.code for line in reasons.funnel]
        return max(codes, key=lambda code: order.index(code) if code in order else len(order))


def place_in(legend: Legend, queue: str) -> PlaceInLegend | None:
    """The place of a queue or nucleus; None if its reason does not follow from its own candidates alone."""
    own = tuple(at for at, name in enumerate(legend.names) if unified_of(name) == queue)
    if not legend.groups:
        is_whole = len(legend.order) == len(legend.codes)
        return PlaceInLegend(queue, legend, own) if is_whole and not any("/" in name for name in legend.names) else None
    if any("/" not in legend.names[at] for at in own):
        return None
    of_group = tuple(at for at, group in enumerate(legend.groups) if group == queue)
    return PlaceInLegend(queue, legend, own) if own == of_group else None

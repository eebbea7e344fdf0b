"""Numbers of candidates that add up: how many queues, and how many of their pseudo-queues, each reason rejected. Pure.

A queue counts once, where the last of its pseudo-queues went: with the reason that is kept under the queue's own name,
else with the latest of its pseudo-queues' reasons. So the queues of all reasons and the queues of which a pseudo-queue
was chosen are those that were there at the start, as are the pseudo-queues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

SUCH_AS = 4


@dataclass(frozen=True)
class Counts:
    """So many candidates. ``queues``: unified queues, or nuclei; ``pseudo_queues``: theirs, None of nuclei."""

    queues: int
    pseudo_queues: int | None = None


@dataclass(frozen=True)
class Rejection:
    """What one reason rejected, and what was left behind it; the reasons stand in the order of the rules.

    A queue counts where its last pseudo-queue went, so that the numbers of all reasons and ``chosen`` add up to
    ``start`` in both columns. ``such_as``: names of some queues.
    """

    code: str
    rejected: Counts
    remaining: Counts
    such_as: tuple[str, ...] = ()


@dataclass(frozen=True)
class RejectionCounts:
    """The candidates of a decision, in the order of its rules; ``start`` is all that was rejected and chosen.

    ``by_queue``: the reason of each queue of which nothing is chosen. ``not_candidates``: names that stood for no
    candidate, with the reason.
    """

    start: Counts
    rejected: tuple[Rejection, ...]
    chosen: Counts
    by_queue: Mapping[str, str]
    not_candidates: Mapping[str, str]


def unified_of(name: str) -> str:
    """The queue of a pseudo-queue; a name without a resource type is a queue of its own."""
    return name.partition("/")[0]


def rejection_counts(
    rejected: Mapping[str, str], funnel: Sequence[tuple[str, int, int]], chosen: Collection[str]
) -> RejectionCounts:
    """Count the candidates of one decision.

    Args:
        rejected: reason by name, of pseudo-queues and of queues none of whose pseudo-queues is left, as it is stored.
        funnel: reason, candidates before it and after it, in the order of the rules.
        chosen: names of the chosen candidates.
    """
    order = list(dict.fromkeys(code for code, _, _ in funnel))
    in_funnel = Counter[str]()
    for code, before, after in funnel:
        in_funnel[code] += before - after
    pseudo = {name for name in rejected if "/" in name}
    of_pseudo = {unified_of(name) for name in (*pseudo, *chosen) if "/" in name}
    alone = [name for name in rejected if "/" not in name and name not in of_pseudo]
    room = dict(in_funnel)
    for name in pseudo:
        room[rejected[name]] = room.get(rejected[name], 0) - 1
    candidates, others = set(pseudo), {}
    for name in alone:
        # names of a task that stand for no queue are kept with the rejected ones, but no rule has seen them
        if room.get(rejected[name], 0) > 0:
            room[rejected[name]] -= 1
            candidates.add(name)
        else:
            others[name] = rejected[name]
    order += [code for code in dict.fromkeys(rejected[name] for name in candidates) if code not in order]
    by_queue = _by_queue(candidates, rejected, order, {unified_of(name) for name in chosen})
    return _added(order, candidates, rejected, by_queue, chosen, others)


def _by_queue(
    candidates: Collection[str], rejected: Mapping[str, str], order: Sequence[str], with_chosen: Collection[str]
) -> dict[str, str]:
    """The reason with which each queue went that is not chosen."""
    position = {code: place for place, code in enumerate(order)}
    found: dict[str, str] = {}
    for name in candidates:
        queue, code = unified_of(name), rejected[name]
        if queue not in with_chosen and (queue not in found or position[code] > position[found[queue]]):
            found[queue] = code
    return {queue: rejected[queue] if rejected.get(queue) in position else code for queue, code in found.items()}


def _added(
    order: Sequence[str],
    candidates: Collection[str],
    rejected: Mapping[str, str],
    by_queue: Mapping[str, str],
    chosen: Collection[str],
    others: Mapping[str, str],
) -> RejectionCounts:
    of_pseudo, of_queue = Counter(rejected[name] for name in candidates), Counter(by_queue.values())
    taken = Counts(len({unified_of(name) for name in chosen}), len(set(chosen)))
    queues, pseudo_queues = len(by_queue) + taken.queues, len(candidates) + len(set(chosen))
    start = Counts(queues, pseudo_queues)
    lines: list[Rejection] = []
    for code in order:
        if of_pseudo[code]:
            queues, pseudo_queues = queues - of_queue[code], pseudo_queues - of_pseudo[code]
            here = Counts(of_queue[code], of_pseudo[code])
            names = sorted(queue for queue, why in by_queue.items() if why == code)
            names = names or sorted(name for name in candidates if rejected[name] == code)
            lines.append(Rejection(code, here, Counts(queues, pseudo_queues), tuple(names[:SUCH_AS])))
    return RejectionCounts(start, tuple(lines), taken, dict(by_queue), dict(others))

"""Use of each share's target, in running and waiting HS06, and the part of busy shares while others idle.

Pure. Source: PanDA analysis brokerage, global share usage; PanDA data model, global_shares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker.domain.classification import SHARE_METRIC, MetricRow, QueueAbout, ShareCount
from broker.domain.work import DroppedRow

#: Used over target, where there is no target.
NO_TARGET_USAGE = 999_999.0
#: HS06 of a core of a queue that does not say it.
DEFAULT_POWER = 10.0
#: A top-level share that uses less than this part of its target, and cannot use the rest, is idle.
IDLE_BELOW = 0.85
L1_PREFIX = "L1 "
L1_RANK = -1
MAX_KEY_CHARACTERS = 32


@dataclass(frozen=True)
class ShareNode:
    """A share: its value is the percentage of its parent, which is None at the top."""

    name: str
    value: float
    parent: str | None


@dataclass(frozen=True)
class ShareLoad:
    """HS06 of jobs that run (or are sent), and of those that are activated."""

    running_hs: float = 0.0
    queuing_hs: float = 0.0

    def plus(self, other: ShareLoad) -> ShareLoad:
        """Both usages together, as those of one share."""
        return ShareLoad(self.running_hs + other.running_hs, self.queuing_hs + other.queuing_hs)


@dataclass(frozen=True)
class Leaf:
    """A share that jobs belong to, its top-level share, and the part of everything that is due to it."""

    name: str
    top: str
    fraction: float


@dataclass(frozen=True)
class SharePreference:
    """One row: a leaf, or all leaves of a top-level share together.

    Attributes:
        key: name of the share, with ``L1 `` in front for a top-level one.
        rank: 1 is the leaf that uses least of its target; -1 for top-level shares.
        load: what runs and waits.
        target_hs: due to it of all that runs.
        totals: all that runs and waits.
        eqiv_target_hs: what is due to a top-level share with what idle ones leave; 0 for leaves.
        eqiv_usage_perc: used of that; 0 for leaves.
    """

    key: str
    rank: int
    load: ShareLoad
    target_hs: float
    totals: ShareLoad
    eqiv_target_hs: float = 0.0
    eqiv_usage_perc: float = 0.0

    @property
    def usage_perc(self) -> float:
        """Running over target, 1.0 is at the target."""
        return _over(self.load.running_hs, self.target_hs)

    @property
    def proj_target_hs(self) -> float:
        """The usable part of the target: limited by running, or by half of waiting work."""
        return min(self.target_hs, max(self.load.running_hs, self.load.queuing_hs / 2.0))

    @property
    def is_idle(self) -> bool:
        """Whether a part of the target is left to others."""
        return self.usage_perc < IDLE_BELOW and self.proj_target_hs < self.target_hs

    def row(self) -> MetricRow:
        """The row in PanDA's shape; percentages of totals are fractions, as is usage."""
        running, queuing = self.load.running_hs, self.load.queuing_hs
        document = {
            "gshare": self.key,
            "rank": self.rank,
            "queuing_hs": queuing,
            "running_hs": running,
            "target_hs": self.target_hs,
            "usage_perc": self.usage_perc,
            "queue_perc": _over(queuing, self.target_hs),
            "norm_usage_perc": _part(running, self.totals.running_hs),
            "norm_queue_perc": _part(queuing, self.totals.queuing_hs),
            "norm_target_perc": _part(self.target_hs, self.totals.running_hs),
            "proj_target_hs": self.proj_target_hs,
            "eqiv_target_hs": self.eqiv_target_hs,
            "eqiv_usage_perc": self.eqiv_usage_perc,
        }
        return MetricRow(SHARE_METRIC, document, gshare=self.key)


def _over(value: float, target: float) -> float:
    return value / target if target > 0 else NO_TARGET_USAGE


def _part(value: float, total: float) -> float:
    return value / total if total > 0 else 0.0


def leaves_of(nodes: Iterable[ShareNode], dropped_rows: list[DroppedRow]) -> tuple[Leaf, ...]:
    """The leaves of the tree, in its order, with their parts of everything: siblings are normalised to their parent.

    Shares that do not hang on the tree (no such parent, a circle) are dropped.
    """
    known = list(nodes)
    children: dict[str | None, list[ShareNode]] = {}
    for node in known:
        children.setdefault(node.parent, []).append(node)
    leaves: list[Leaf] = []
    reached: set[str] = set()
    open_nodes = [(top, top.name, part) for top, part in _parts(children.get(None, []), 1.0)][::-1]
    while open_nodes:
        node, top, fraction = open_nodes.pop()
        reached.add(node.name)
        below = children.get(node.name, [])
        if not below:
            leaves.append(Leaf(node.name, top, fraction))
        open_nodes += [(child, top, part) for child, part in _parts(below, fraction)][::-1]
    for node in known:
        if node.name not in reached:
            dropped_rows.append(
                DroppedRow("global_shares", node.name, "no_parent", f"{node.parent} does not lead to the top")
            )
    return tuple(leaves)


def leaves_below_target(nodes: Iterable[ShareNode], loads: Mapping[str, ShareLoad]) -> tuple[str, ...]:
    """The names of the leaves, level by level: of siblings the one that uses least of its part comes first.

    A share without a part comes last; siblings that use the same stay in their order. Shares that do not hang on the
    tree are left out. Source: PanDA server, get_sorted_leaves.
    """
    children: dict[str | None, list[ShareNode]] = {}
    for node in nodes:
        children.setdefault(node.parent, []).append(node)
    running: dict[str, float] = {}

    def count(node: ShareNode) -> float:
        below = children.get(node.name, [])
        own = sum(count(child) for child in below) if below else loads.get(node.name, ShareLoad()).running_hs
        running[node.name] = own
        return own

    def in_order(siblings: list[ShareNode]) -> list[str]:
        used = {node.name: _over(running[node.name], part) for node, part in _parts(siblings, 1.0)}
        found: list[str] = []
        for node in sorted(siblings, key=lambda one: used[one.name]):
            found += in_order(children[node.name]) if node.name in children else [node.name]
        return found

    tops = children.get(None, [])
    for top in tops:
        count(top)
    return tuple(in_order(tops))


def _parts(siblings: list[ShareNode], fraction: float) -> list[tuple[ShareNode, float]]:
    total = sum(node.value for node in siblings)
    return [(node, fraction * _part(node.value, total)) for node in siblings]


def share_loads(counts: Iterable[ShareCount], queues: Mapping[str, QueueAbout]) -> dict[str, ShareLoad]:
    """The load of each share. Jobs at queues that are not on record do not count; power 0 or NULL is DEFAULT_POWER."""
    found: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for count in counts:
        power = 1.0
        if count.queue is not None:
            about = queues.get(count.queue)
            if about is None:
                continue
            power = about.corepower if about.corepower > 0 else DEFAULT_POWER
        hs = count.amount * power
        found[count.share or ""][0 if count.is_running else 1] += hs
    return {share: ShareLoad(running, queuing) for share, (running, queuing) in found.items()}


def preferences(
    leaves: Iterable[Leaf], loads: Mapping[str, ShareLoad], dropped_rows: list[DroppedRow]
) -> tuple[SharePreference, ...]:
    """The rows of all leaves, by rank, and then of the top-level shares.

    Args:
        leaves: of the tree.
        loads: by share, of all jobs: what runs for no leaf of the tree counts in the total too.
        dropped_rows: gets what cannot be kept.
    """
    leaves = tuple(leaves)
    totals = _sum(loads.values())
    plain = [
        SharePreference(leaf.name, 0, loads.get(leaf.name, ShareLoad()), leaf.fraction * totals.running_hs, totals)
        for leaf in leaves
    ]
    ranked = sorted(plain, key=lambda one: (one.usage_perc, one.key))
    tops = _tops(leaves, {one.key: one for one in plain}, totals)
    known = {one.key for one in tops}
    rows = [
        SharePreference(one.key, rank, one.load, one.target_hs, totals)
        for rank, one in enumerate(ranked, start=1)
        if one.key not in known
    ]
    for one in [*rows, *tops]:
        if len(one.key) > MAX_KEY_CHARACTERS:
            dropped_rows.append(
                DroppedRow("global_shares", one.key, "too_long", f"over {MAX_KEY_CHARACTERS} characters")
            )
    return tuple(one for one in [*rows, *tops] if len(one.key) <= MAX_KEY_CHARACTERS)


def _sum(loads: Iterable[ShareLoad]) -> ShareLoad:
    total = ShareLoad()
    for load in loads:
        total = total.plus(load)
    return total


def _tops(
    leaves: tuple[Leaf, ...], plain: Mapping[str, SharePreference], totals: ShareLoad
) -> tuple[SharePreference, ...]:
    """The top-level shares; unused targets of idle ones go to busy ones, by their targets."""
    below: dict[str, list[SharePreference]] = {}
    for leaf in leaves:
        below.setdefault(leaf.top, []).append(plain[leaf.name])
    summed = [
        SharePreference(
            l1_key(top), L1_RANK, _sum(one.load for one in members), sum(one.target_hs for one in members), totals
        )
        for top, members in below.items()
    ]
    idle_hs = sum(one.target_hs for one in summed) - sum(one.proj_target_hs for one in summed)
    busy_hs = sum(one.target_hs for one in summed if not one.is_idle) + 1.0
    return tuple(_with_equivalent(one, idle_hs / busy_hs) for one in summed)


def l1_key(top: str) -> str:
    """The key of a top-level share; one whose name says already that it is one keeps it."""
    return top if top.startswith(L1_PREFIX) else L1_PREFIX + top


def _with_equivalent(one: SharePreference, added: float) -> SharePreference:
    if one.is_idle:
        target, usage = one.target_hs, one.usage_perc
    else:
        target = one.target_hs * (1.0 + added)
        usage = _over(one.load.running_hs, target)
    return SharePreference(one.key, one.rank, one.load, one.target_hs, one.totals, target, usage)

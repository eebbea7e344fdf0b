"""Usage of each share's target, in running and waiting HS06, and the targets of busy shares while others idle.

Pure. Source: PanDA analysis brokerage, global share usage; PanDA data model, global_shares.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker.domain.classification import SHARE_METRIC, MetricRow, QueueAbout, ShareCount
from broker.domain.work import DroppedRow

#: Usage of a share without a target.
NO_TARGET_USAGE = 999_999.0
#: HS06 per core of a queue that does not publish it.
DEFAULT_POWER = 10.0
#: A top-level share that uses less than this fraction of its target, and cannot use the rest, is idle.
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
        """The sum of both loads."""
        return ShareLoad(self.running_hs + other.running_hs, self.queuing_hs + other.queuing_hs)


@dataclass(frozen=True)
class Leaf:
    """A share to which jobs belong, its top-level share, and the fraction of everything due to it."""

    name: str
    top: str
    fraction: float


@dataclass(frozen=True)
class SharePreference:
    """One row: a leaf, or all leaves of a top-level share together.

    Attributes:
        key: name of the share, prefixed with ``L1 `` for a top-level one.
        rank: 1 is the leaf that uses least of its target; -1 for top-level shares.
        load: its running and waiting load.
        target_hs: its due part of everything that runs.
        totals: total running and waiting load.
        eqiv_target_hs: target of a top-level share including what idle ones leave; 0 for leaves.
        eqiv_usage_perc: usage of that target; 0 for leaves.
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
        """Running over target; 1.0 is on target."""
        return _over(self.load.running_hs, self.target_hs)

    @property
    def proj_target_hs(self) -> float:
        """The usable part of the target: limited by the running work, or half of the waiting work."""
        return min(self.target_hs, max(self.load.running_hs, self.load.queuing_hs / 2.0))

    @property
    def is_idle(self) -> bool:
        """Whether part of the target is left to others."""
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
    """The leaves in tree order, with their fractions of everything; siblings are normalised to their parent.

    Shares that are not connected to the tree (unknown parent, a cycle) are dropped.
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
    """The names of the leaves, level by level: the sibling that uses least of its part comes first.

    A share without a part comes last; siblings with equal usage keep their order. Shares that are not connected to the
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
        names: list[str] = []
        for node in sorted(siblings, key=lambda sibling: used[sibling.name]):
            names += in_order(children[node.name]) if node.name in children else [node.name]
        return names

    tops = children.get(None, [])
    for top in tops:
        count(top)
    return tuple(in_order(tops))


def _parts(siblings: list[ShareNode], fraction: float) -> list[tuple[ShareNode, float]]:
    total = sum(node.value for node in siblings)
    return [(node, fraction * _part(node.value, total)) for node in siblings]


def share_loads(counts: Iterable[ShareCount], queues: Mapping[str, QueueAbout]) -> dict[str, ShareLoad]:
    """The load of each share; jobs at queues not on record do not count, and power 0 or NULL is DEFAULT_POWER."""
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for count in counts:
        power = 1.0
        if count.queue is not None:
            about = queues.get(count.queue)
            if about is None:
                continue
            power = about.corepower if about.corepower > 0 else DEFAULT_POWER
        hs = count.amount * power
        sums[count.share or ""][0 if count.is_running else 1] += hs
    return {share: ShareLoad(running, queuing) for share, (running, queuing) in sums.items()}


def preferences(
    leaves: Iterable[Leaf], loads: Mapping[str, ShareLoad], dropped_rows: list[DroppedRow]
) -> tuple[SharePreference, ...]:
    """The rows of all leaves by rank, followed by those of the top-level shares.

    Args:
        leaves: leaves of the tree.
        loads: load of all jobs by share; the load of shares that are no leaves counts in the total, too.
        dropped_rows: receives the shares that cannot be kept.
    """
    leaves = tuple(leaves)
    totals = _sum(loads.values())
    plain = [
        SharePreference(leaf.name, 0, loads.get(leaf.name, ShareLoad()), leaf.fraction * totals.running_hs, totals)
        for leaf in leaves
    ]
    ranked = sorted(plain, key=lambda row: (row.usage_perc, row.key))
    tops = _tops(leaves, {row.key: row for row in plain}, totals)
    known = {row.key for row in tops}
    rows = [
        SharePreference(row.key, rank, row.load, row.target_hs, totals)
        for rank, row in enumerate(ranked, start=1)
        if row.key not in known
    ]
    for row in [*rows, *tops]:
        if len(row.key) > MAX_KEY_CHARACTERS:
            dropped_rows.append(
                DroppedRow("global_shares", row.key, "too_long", f"over {MAX_KEY_CHARACTERS} characters")
            )
    return tuple(row for row in [*rows, *tops] if len(row.key) <= MAX_KEY_CHARACTERS)


def _sum(loads: Iterable[ShareLoad]) -> ShareLoad:
    total = ShareLoad()
    for load in loads:
        total = total.plus(load)
    return total


def _tops(
    leaves: tuple[Leaf, ...], plain: Mapping[str, SharePreference], totals: ShareLoad
) -> tuple[SharePreference, ...]:
    """The top-level shares; unused targets of idle ones go to busy ones, in proportion to their targets."""
    below: dict[str, list[SharePreference]] = {}
    for leaf in leaves:
        below.setdefault(leaf.top, []).append(plain[leaf.name])
    summed = [
        SharePreference(
            l1_key(top),
            L1_RANK,
            _sum(share.load for share in members),
            sum(share.target_hs for share in members),
            totals,
        )
        for top, members in below.items()
    ]
    idle_hs = sum(share.target_hs for share in summed) - sum(share.proj_target_hs for share in summed)
    busy_hs = sum(share.target_hs for share in summed if not share.is_idle) + 1.0
    return tuple(_with_equivalent(share, idle_hs / busy_hs) for share in summed)


def l1_key(top: str) -> str:
    """The key of a top-level share; a name that already has the prefix is kept."""
    return top if top.startswith(L1_PREFIX) else L1_PREFIX + top


def _with_equivalent(share: SharePreference, added: float) -> SharePreference:
    if share.is_idle:
        target, usage = share.target_hs, share.usage_perc
    else:
        target = share.target_hs * (1.0 + added)
        usage = _over(share.load.running_hs, target)
    return SharePreference(share.key, share.rank, share.load, share.target_hs, share.totals, target, usage)

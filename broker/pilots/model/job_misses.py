"""Which of the seen nodes fit what a job asks for, and which miss by one condition, with the best of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from broker.matching.specs.judge import Kind, Miss, misses
from broker.matching.specs.node import Node
from broker.matching.specs.spec import JobSpecs
from broker.matching.specs.tags import Tags

PlaceT = TypeVar("PlaceT")


@dataclass(frozen=True)
class NodeGroup(Generic[PlaceT]):
    """Nodes that are alike, at one place, and how often they were seen."""

    place: PlaceT
    site: str
    node: Node
    count: int
    last_seen_at: datetime


class NodesThatMiss(BaseModel):
    """Nodes that miss by one condition.

    Attributes:
        field: field of the job.
        kind: reason: they have less, more or something else, are banned, do not report it, or an expression is false.
        asked: value requested by the job.
        best: highest (or lowest) value of these nodes, else the most common one; null if they do not report it.
        site: site with that value.
        kinds_of_nodes: number of kinds of node that miss by it.
        seen: number of requests or hosts.
        sentence: summary in words.
    """

    field: str
    kind: Kind
    asked: Any
    best: Any
    site: str
    kinds_of_nodes: int
    seen: int
    sentence: str


def _sentence(miss: Miss, site: str, seen: int) -> str:
    """The condition that is not met, and how near the nodes come to it."""
    request, of = f"{miss.field}: {_shown(miss.request)} asked", f"of {seen:,} sightings, at {site}"
    if miss.kind == "unknown":
        return f"{request}, which nodes do not tell ({seen:,} sightings)"
    if miss.kind in _END:
        return f"{request}, {_shown(miss.offered)} the {_END[miss.kind]} {of}"
    if miss.kind == "false":
        has = f"such as one with {_shown(miss.offered)}" if miss.offered else "which have none of its tags"
        return f"{miss.field}: '{miss.request}' is false for nodes {has} ({seen:,} sightings)"
    return f"{request}, {_shown(miss.offered)} is what most have {of}"


_END = {"below": "most", "above": "least"}


@dataclass(frozen=True)
class NodeComparison(Generic[PlaceT]):
    """All seen nodes, compared with what a job asks for.

    Attributes:
        fits: nodes where the job may run.
        near: conditions by which alone nodes miss, that of the most nodes first.
        far: sightings of nodes that miss by several conditions.
    """

    fits: tuple[NodeGroup[PlaceT], ...]
    near: tuple[NodesThatMiss, ...]
    far: int


def compare(
    job: JobSpecs | None, seen: Iterable[NodeGroup[PlaceT]], of_place: Callable[[NodeGroup[PlaceT]], Sequence[Miss]]
) -> NodeComparison[PlaceT]:
    """Compare each kind of nodes; of several specs the one to which a node is nearest counts.

    Args:
        job: what the job asks of a node; None: nothing.
        seen: the nodes.
        of_place: returns what the place of a node misses.
    """
    fits, far = [], 0
    near: dict[tuple[str, Kind], list[tuple[Miss, NodeGroup[PlaceT]]]] = {}
    for one in seen:
        specs = () if job is None else job.specs
        missed = [*of_place(one), *min((misses(spec, one.node) for spec in specs), key=len, default=())]
        if not missed:
            fits.append(one)
        elif len(missed) == 1:
            near.setdefault((missed[0].field, missed[0].kind), []).append((missed[0], one))
        else:
            far += one.count
    near_misses = sorted((_summed(pairs) for pairs in near.values()), key=lambda one: (-one.seen, one.field, one.kind))
    return NodeComparison(tuple(fits), tuple(near_misses), far)


def _summed(pairs: Sequence[tuple[Miss, NodeGroup[PlaceT]]]) -> NodesThatMiss:
    kind = pairs[0][0].kind
    if kind in ("below", "above"):
        miss, best = (max if kind == "below" else min)(pairs, key=lambda one: _order(one[0].offered))
    else:
        counted: Counter[Hashable] = Counter()
        for miss, node in pairs:
            counted[repr(miss.offered)] += node.count
        most = counted.most_common(1)[0][0]
        miss, best = next(pair for pair in pairs if repr(pair[0].offered) == most)
    seen = sum(node.count for _, node in pairs)
    return NodesThatMiss(
        field=miss.field, kind=kind, asked=miss.request, best=miss.offered, site=best.site, kinds_of_nodes=len(pairs),
        seen=seen, sentence=_sentence(miss, best.site, seen),
    )  # fmt: skip


def _order(offered: Any) -> tuple[float, ...]:
    """Sort key of numbers and versions by their meaning."""
    if isinstance(offered, int | float):
        return (float(offered),)
    return tuple(float(part) if part.isdigit() else -1.0 for part in str(offered).replace("-", ".").split("."))


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "nothing"}[value]
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(str, value[:5])) + (", ..." if len(value) > 5 else "")
    if isinstance(value, dict):
        return "; ".join(f"{name} {_shown(one)}" for name, one in value.items())
    return str(value)


def wanted_tags(job: JobSpecs | None) -> list[str]:
    """The tags whose presence any spec wants, sorted: those under an even number of ``~``."""
    tags: set[str] = set()
    for spec in () if job is None else job.specs:
        if spec.tags is not None:
            tags |= _wanted(spec.tags, is_denied=False)
    return sorted(tags)


def _wanted(tags: Tags, *, is_denied: bool) -> set[str]:
    if tags.operator == "atom":
        return set() if is_denied else {tags.atom}
    denied = is_denied != (tags.operator == "~")
    return set().union(*(_wanted(part, is_denied=denied) for part in tags.parts))

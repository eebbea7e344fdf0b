"""All groups of waiting jobs that a node could run, without checking each: bit sets over their specs.

Each condition has a bit for every spec for which it holds. The bits are cached by the part of the node that the
condition depends on, rounded to what the bounds can tell apart; the whole answer is cached by the signature of the
node. There are few kinds of nodes, so that most answers are a look-up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from broker.domain.arrays import Bools, Floats, Ints
from broker.domain.bounded_cache import BoundedCache
from broker.matching.architecture import read as read_architecture
from broker.matching.outcomes import Outcome
from broker.matching.specs.condition import CACHE_BYTES, Condition, unpacked
from broker.matching.specs.hardware_names import profile_covers, profile_of_name
from broker.matching.specs.judge import OPPORTUNISTIC
from broker.matching.specs.node import Node
from broker.matching.specs.panda_hardware import match_at_node
from broker.matching.specs.spec import OWN, GpuNeed, JobSpecs, Profile, Spec, mentioned_tags
from broker.matching.specs.tag_index import TagIndex
from broker.matching.specs.tags import Tags
from broker.matching.versions import version_key

_Checks = tuple[tuple[tuple[Callable[[Node, int], bool], int], ...], ...]
"""For each spec of a group: conditions on it alone, and its place."""


class SpecIndex:
    """The groups, with cached answers for the nodes that were asked about.

    Args:
        groups: what the jobs of each group ask for.
        profile: profile whose rules hold; not v0.1, which is for checks of single jobs.
    """

    def __init__(self, groups: Sequence[JobSpecs], profile: Profile = OWN) -> None:
        self.groups, self.profile = tuple(groups), profile
        self.specs = tuple(spec for group in self.groups for spec in group.specs)
        self._first: Ints = np.cumsum([0, *(len(group.specs) for group in self.groups)], dtype=np.int64)[:-1]
        self._alone = len(self.specs) == len(self.groups)
        self.conditions = tuple(_conditions(self.specs, mentioned_tags(self.groups), profile)) if self.specs else ()
        self._cache = BoundedCache[Bools](CACHE_BYTES)
        self._checks: dict[int, _Checks] = {}

    def suits(self, node: Node, group: int) -> bool:
        """Whether a node meets any spec of one group, without checking the others."""
        for checks in self._checks.get(group) or self._checks_of(group):
            for holds, place in checks:
                if not holds(node, place):
                    break
            else:
                return True
        return False

    def _checks_of(self, group: int) -> _Checks:
        """The conditions of each spec of a group, tags first: they tell most nodes apart."""
        first = int(self._first[group])
        conditions = sorted(self.conditions, key=lambda condition: condition.field != "tags")
        checks = self._checks[group] = tuple(
            tuple((condition.at, place) for condition in conditions if condition.asks(place))
            for place in range(first, first + len(self.groups[group].specs))
        )
        return checks

    def signature(self, node: Node) -> Hashable:
        """Key that tells nodes apart for these groups: nodes with the same signature are given the same jobs."""
        return tuple(condition.part(node) for condition in self.conditions)

    def fits(self, node: Node) -> Bools:
        """(G,) whether a node meets any spec of each group; the array is shared and must not be changed."""
        signature = self.signature(node)
        fits = self._cache.get(signature)
        if fits is None:
            fits = self._of_groups(self._all(node, None))
            fits.flags.writeable = False
            self._cache.keep(signature, fits, len(self.groups) + 1000)
        return fits

    def missing_one(self, node: Node) -> dict[str, Bools]:
        """(G,) by field: the groups that do not fit, but would if this one condition held."""
        fits = self.fits(node)
        by_field: dict[str, Bools] = {}
        for place, condition in enumerate(self.conditions):
            near = self._of_groups(self._all(node, place)) & ~fits
            if near.any():
                by_field[condition.field] = by_field.get(condition.field, np.zeros(len(fits), np.bool_)) | near
        return by_field

    def _all(self, node: Node, but: int | None) -> Bools:
        """(S,) the specs for which every condition holds, except for the one at ``but``."""
        if not self.specs:
            return np.zeros(0, np.bool_)
        sets = [condition.bits(node) for place, condition in enumerate(self.conditions) if place != but]
        return unpacked(np.bitwise_and.reduce(sets), len(self.specs))

    def _of_groups(self, specs: Bools) -> Bools:
        return specs if self._alone else np.logical_or.reduceat(specs, self._first)


def _conditions(specs: Sequence[Spec], mentioned: frozenset[str], profile: Profile) -> list[Condition]:
    skips = profile.skips_missing
    return [
        *_of_place(specs),
        _least("wall-time", [one.wall_time_s for one in specs], lambda node: node.wall_time_s),
        *_of_size(specs, skips=skips),
        *_of_cpu(specs),
        *_of_gpu(specs, skips=skips),
        _least("io.scratch-mb", [one.scratch_mb for one in specs], lambda node: node.scratch_mb, skips=skips),
        _of_tags([one.tags for one in specs], mentioned),
        _each(
            "panda-architecture",
            [one.panda_architecture for one in specs],
            _hardware,
            lambda node, architecture: match_at_node(read_architecture(architecture), node) == Outcome.FITS,
        ),
    ]


def _of_tags(expressions: Sequence[Tags | None], mentioned: frozenset[str]) -> Condition:
    """One condition over all distinct expressions; None asks for nothing."""
    number: dict[Tags, int] = {}
    of_spec: Ints = np.array(
        [0 if tags is None else number.setdefault(tags, len(number) + 1) for tags in expressions], dtype=np.int64
    )
    index = TagIndex(tuple(number))

    def holds(node: Node) -> Bools:
        return np.concatenate(([True], index.holds(node.tags & mentioned)))[of_spec]

    def at(node: Node, place: int) -> bool:
        tags = expressions[place]
        return tags is None or tags.holds(node.tags)

    part = (lambda node: node.tags & mentioned) if number else _nothing
    return Condition("tags", part, holds, [tags is not None for tags in expressions], at)


def _of_place(specs: Sequence[Spec]) -> list[Condition]:
    return [
        _each("site", [one.sites or None for one in specs], lambda node: node.site, lambda site, sites: site in sites),
        _each(
            "banned-sites",
            [one.banned_sites or None for one in specs],
            lambda node: node.site,
            lambda site, banned: site not in banned,
        ),
        _each("system.name", [one.system for one in specs], lambda node: node.system, _same),
        _version_least("system.glibc", [one.glibc for one in specs], lambda node: node.glibc),
        _each(
            "system.user-namespaces",
            [one.user_namespaces or None for one in specs],
            lambda node: bool(node.user_namespaces),
            lambda has, _: has,
        ),
    ]


def _of_cpu(specs: Sequence[Spec]) -> list[Condition]:
    level = "cpu.architecture.microarchitecture-level"
    return [
        _each("cpu.architecture.name", [one.architecture for one in specs], lambda node: node.architecture, _same),
        _least(f"{level}.min", [one.level_least for one in specs], lambda node: node.level),
        _each(
            f"{level}.max",
            [one.level_most for one in specs],
            lambda node: node.level,
            lambda has, most: has is not None and has <= most,
        ),
        _each("cpu.architecture.profile", [one.arm_profile for one in specs], lambda node: node.arm_profile, _covers),
        _each(
            "cpu.architecture.required-features",
            [one.features or None for one in specs],
            lambda node: node.features or frozenset(),
            lambda has, features: has.issuperset(features),
        ),
    ]


def _of_gpu(specs: Sequence[Spec], *, skips: bool) -> list[Condition]:
    needs = [one.gpu for one in specs]
    denied: Bools = np.array([one.gpu is None and not one.gpus_by_panda for one in specs], dtype=np.bool_)
    only_beside: Bools = np.array([one is not None and one.count.least == 0 for one in needs], dtype=np.bool_)

    def beside(node: Node) -> Bools:
        """Jobs that ask for no GPU get no node with GPUs, unless they agree and its site allows it."""
        if not node.gpus:
            return np.ones(len(needs), np.bool_)
        return ~denied if OPPORTUNISTIC in node.tags else ~(denied | only_beside)

    def beside_at(node: Node, place: int) -> bool:
        return not node.gpus or bool(beside(node)[place])

    def of_needs(value: Callable[[GpuNeed], Any]) -> list[Any]:
        return [None if one is None else value(one) for one in needs]

    of_gpus = partial(_with_gpus, count=len(needs))
    return [
        Condition("gpu", lambda node: (bool(node.gpus), OPPORTUNISTIC in node.tags), beside, at=beside_at),
        _least("gpu.count.min", of_needs(lambda one: one.count.least or None), lambda node: node.gpus),
        of_gpus(_least("gpu.ram-mb", of_needs(lambda one: one.ram_mb), lambda node: node.gpu_ram_mb)),
        of_gpus(_each("gpu.vendor", of_needs(lambda one: one.vendor), lambda node: node.gpu_vendor, _same)),
        of_gpus(
            _version_least(
                "gpu.compute-capability.min", of_needs(lambda one: one.capability_least), lambda node: node.capability
            )
        ),
        of_gpus(
            _each(
                "gpu.compute-capability.max",
                of_needs(lambda one: one.capability_most),
                lambda node: _key(node.capability),
                lambda has, most: has is not None and has <= version_key(most),
            )
        ),
        of_gpus(_version_least("gpu.driver-version", of_needs(lambda one: one.driver), lambda node: node.driver)),
        of_gpus(
            _version_least(
                "gpu.min-runtime-version", of_needs(lambda one: one.runtime), lambda node: node.runtime, skips=skips
            )
        ),
    ]


def _with_gpus(condition: Condition, *, count: int) -> Condition:
    """The condition of ``count`` specs, checked only where there are GPUs."""

    def holds(node: Node) -> Bools:
        return unpacked(condition.bits(node), count) if node.gpus else np.ones(count, np.bool_)

    def at(node: Node, place: int) -> bool:
        return not node.gpus or condition.at(node, place)

    def part(node: Node) -> Hashable:
        return condition.part(node) if node.gpus else "none"

    return Condition(condition.field, part, holds, [condition.asks(place) for place in range(count)], at)


class _Sizes:
    """Cores, memory and work: memory decides how many cores a job gets, and the cores how much it can do."""

    def __init__(self, specs: Sequence[Spec]) -> None:
        requests = [one.ram_request for one in specs]
        self._most = _column([one.cores.most for one in specs], np.inf)
        self._fixed = _column([None if one is None else one.overhead_mb for one in requests], 0.0)
        self._a_core = _column([None if one is None else one.per_core_mb for one in requests], 0.0)
        self._work = _column([one.cpu_work_db12 for one in specs], 0.0)
        self.asks_work = (self._work > 0).tolist()
        self.memory = self._fixed + self._a_core * _column([one.cores.least for one in specs], 0.0)

    def cores(self, node: Node) -> Floats:
        """(S,) the cores that each spec would get."""
        cores = np.minimum(self._most, node.cores or 0)
        if node.ram_mb is None:
            return cores
        left = node.ram_mb - self._fixed
        by_memory = np.floor_divide(left, self._a_core, out=np.full(len(left), np.inf), where=self._a_core > 0)
        return np.where(left < 0, 0.0, np.minimum(cores, by_memory))

    def can_work(self, node: Node) -> Bools:
        """(S,) whether the node can do the work that each spec asks for."""
        if node.cpu_power_db12 is None or node.wall_time_s is None:
            return np.asarray(self._work <= (node.cpu_work_db12 or 0))
        if node.cores is None:
            return np.asarray(self._work <= 0)
        return np.asarray(self._work <= node.wall_time_s * node.cpu_power_db12 * self.cores(node))

    def part_of_work(self, node: Node) -> Hashable:
        """The part of a node that decides about the work."""
        if not self._work.any():
            return None
        if node.cpu_power_db12 is None or node.wall_time_s is None:
            return node.cpu_work_db12
        return node.wall_time_s, node.cpu_power_db12, node.cores, node.ram_mb


def _column(values: Sequence[float | None], missing: float) -> Floats:
    return np.array([missing if value is None else value for value in values], dtype=np.float64)


def _of_size(specs: Sequence[Spec], *, skips: bool) -> list[Condition]:
    sizes = _Sizes(specs)
    return [
        Condition("cpu-work", sizes.part_of_work, sizes.can_work, sizes.asks_work),
        _least(
            "cpu.num-cores.min",
            [one.cores.least or None for one in specs],
            lambda node: 1 if node.cores is None else node.cores,
        ),
        _least(
            "cpu.ram-mb.request", [one or None for one in sizes.memory.tolist()], lambda node: node.ram_mb, skips=skips
        ),
    ]


def _each(
    field: str, requests: Sequence[Any], part: Callable[[Node], Any], holds: Callable[[Any, Any], bool]
) -> Condition:
    """A condition that is evaluated once for each distinct value; None asks for nothing."""
    number: dict[Any, int] = {None: 0}
    of_spec: Ints = np.array([number.setdefault(value, len(number)) for value in requests], dtype=np.int64)
    values = list(number)[1:]

    def decide(node: Node) -> Bools:
        has = part(node)
        return np.array([True, *(holds(has, value) for value in values)], dtype=np.bool_)[of_spec]

    def at(node: Node, place: int) -> bool:
        return holds(part(node), requests[place])

    return Condition(field, part if values else _nothing, decide, [one is not None for one in requests], at)


def _version_least(
    field: str, versions: Sequence[str | None], value: Callable[[Node], str | None], *, skips: bool = False
) -> Condition:
    keys = [None if one is None else version_key(one) for one in versions]
    return _least(field, keys, lambda node: _key(value(node)), skips=skips)


def _least(field: str, least: Sequence[Any], value: Callable[[Node], Any], *, skips: bool = False) -> Condition:
    """A lower limit: of the sorted limits, those up to the value of the node hold; None asks for nothing."""
    bounds = sorted({one for one in least if one is not None})
    rank: Ints = np.array([0 if one is None else bisect_left(bounds, one) + 1 for one in least], dtype=np.int64)

    def place(node: Node) -> int:
        has = value(node)
        if has is None:
            return len(bounds) if skips else 0
        return bisect_right(bounds, has)

    def at(node: Node, spec: int) -> bool:
        has = value(node)
        return skips if has is None else bool(has >= least[spec])

    return Condition(field, place, lambda node: np.asarray(rank <= place(node)), [one is not None for one in least], at)


def _key(version: str | None) -> Any:
    return None if version is None else version_key(version)


def _same(has: Any, request: Any) -> bool:
    return bool(has == request)


def _covers(has: str | None, request: str) -> bool:
    mine, wanted = profile_of_name(has or ""), profile_of_name(request)
    return mine is not None and wanted is not None and profile_covers(mine, wanted)


def _nothing(_: Node) -> Hashable:
    return None


def _hardware(node: Node) -> Node:
    """The node reduced to what decides whether it meets the hardware of a PanDA task."""
    return replace(
        node, site="", system=None, glibc=None, user_namespaces=None, wall_time_s=None, cpu_work_db12=None,
        cpu_power_db12=None, cores=None, ram_mb=None, level=None, arm_profile=None, capability=None, scratch_mb=None,
        tags=frozenset(),
    )  # fmt: skip

"""Random specs and nodes that often nearly fit: few values, so that both sides of every boundary occur."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from broker.matching.specs.node import Node
from broker.matching.specs.spec import Bounds, GpuNeed, JobSpecs, Memory, Spec
from broker.matching.specs.tags import parse_tags

TAGS = ("cvmfs:lhcb", "os:el9", "os:alma9", "net:degraded", "gpu:opportunistic-cpu-ok")
EXPRESSIONS = tuple(
    parse_tags(text)
    for text in (
        "cvmfs:lhcb", "cvmfs:lhcb & (os:el9 | os:alma9)", "~net:degraded", "os:el9 | ~(cvmfs:lhcb & os:alma9)", "other",
        "~other & cvmfs:lhcb",
    )
)  # fmt: skip
SITES = ("S.One", "S.Two", "S.Three")
FLAGS = ("avx2", "avx512f", "asimd", "sve2")
ARCHITECTURES = ("x86_64", "aarch64")
VERSIONS = ("2.9", "2.17", "2.17.0", "2.34", "10.0")
PANDA = ("#x86_64", "#(x86_64|aarch64)-*-avx2", "&nvidia:vram>=16384", "&nvidia:driver>=2.17", "#x86_64-intel")


class Dice:
    """Random values from a seed."""

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    def maybe(self, values: Sequence[Any], chance: float = 0.4) -> Any:
        """One of the values, or None."""
        return self._generator.choice(values) if self._generator.random() < chance else None

    def some(self, values: Sequence[Any], chance: float = 0.3) -> tuple[Any, ...]:
        """Some of the values, sorted; often an empty tuple."""
        if self._generator.random() > chance:
            return ()
        return tuple(sorted(self._generator.sample(values, self._generator.randint(1, len(values)))))

    def bounds(self, least: Sequence[int], width: Sequence[int | None]) -> Bounds:
        """A random range."""
        low, more = self._generator.choice(least), self._generator.choice(width)
        return Bounds(low, None if more is None else low + more)

    def count(self, most: int) -> int:
        """From 1 to ``most``, mostly 1."""
        return 1 if self._generator.random() < 0.7 else self._generator.randint(1, most)


def random_spec(dice: Dice) -> Spec:
    sites, banned = dice.some(SITES), dice.some(SITES[:2], 0.1)
    needs_gpu = dice.maybe([True], 0.3)
    gpu = GpuNeed(
        dice.bounds((0, 1, 1, 2), (0, 1, None)), dice.maybe((16_383, 16_384, 16_385)), dice.maybe(("nvidia", "amd")),
        dice.maybe(("8.9", "9.0", "10.0")), dice.maybe(("9.0", "10.0"), 0.1), dice.maybe(VERSIONS, 0.2),
        dice.maybe(VERSIONS, 0.2),
    )  # fmt: skip
    request = dice.maybe([Memory(a, b) for a in (0, 1000, 4000) for b in (0, 1500, 3000)], 0.6)
    return Spec(
        sites, () if sites else banned, dice.maybe(("Linux", "Darwin")), dice.maybe(VERSIONS, 0.2),
        bool(dice.maybe([True], 0.2)), dice.maybe((3600, 3601, 86_400), 0.6),
        dice.maybe((40_000, 41_400, 41_401, 400_000), 0.5), dice.bounds((1, 1, 2, 8), (0, 3, None)), request, None,
        dice.maybe(ARCHITECTURES, 0.6), dice.maybe((2, 3, 4), 0.3), dice.maybe((3, 4), 0.1),
        dice.maybe(("armv8.2-a", "armv9.0-a"), 0.1), dice.some(FLAGS, 0.1), gpu if needs_gpu else None,
        dice.maybe((1, 50_000, 50_001), 0.3), dice.maybe(EXPRESSIONS), dice.maybe(PANDA, 0.1),
    )  # fmt: skip


def random_job(dice: Dice) -> JobSpecs:
    return JobSpecs(tuple(random_spec(dice) for _ in range(dice.count(4))), "lhcb")


def random_node(dice: Dice) -> Node:
    return Node(
        dice.maybe(SITES, 1.0), dice.maybe(("Linux", "Darwin"), 0.9), dice.maybe(VERSIONS, 0.7),
        dice.maybe((True, False), 0.8), dice.maybe((3599, 3600, 86_400), 0.9), dice.maybe((41_400, 400_000), 0.5),
        dice.maybe((11.5, 1.0), 0.5), dice.maybe((0, 1, 2, 8, 16), 0.9),
        dice.maybe((999, 1000, 2500, 8000, 16_000), 0.9), dice.maybe((*ARCHITECTURES, "ppc64le"), 0.9),
        dice.maybe((1, 2, 3, 4), 0.8), dice.maybe(("armv8.2-a", "armv8.5-a", "armv9.4-a"), 0.3),
        dice.maybe([frozenset(FLAGS[:n]) for n in range(5)], 0.6), dice.maybe(("intel", "amd"), 0.5),
        dice.maybe((0, 0, 1, 2), 0.9), dice.maybe((16_384, 40_960), 0.8), dice.maybe(("nvidia", "amd"), 0.8),
        dice.maybe(("A100", "H100"), 0.5), None, dice.maybe(("8.9", "9.0", "10.0"), 0.8), dice.maybe(VERSIONS, 0.8),
        dice.maybe(VERSIONS, 0.5), dice.maybe((49_999, 50_000), 0.6), frozenset(dice.some((*TAGS, "unused"), 0.8)),
    )  # fmt: skip

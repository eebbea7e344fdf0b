"""The resources that jobs may have requirements on: Site, CE, queue, and what each has for a VO.

A CE inherits from its site, and a queue from both; each may override values for one VO. A value at a lower level
replaces the one above as a whole. Source: DIRAC RFC 7 and RFC 5.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

ParameterValue = str | tuple[str, ...]
"""One text or a list of texts, in the form in which texts are compared; the empty list removes the parameter."""

Parameters = Mapping[str, ParameterValue]


class QueueName(NamedTuple):
    """A queue of the grid."""

    site: str
    ce: str
    queue: str

    def __str__(self) -> str:
        return f"{self.site}/{self.ce}/{self.queue}"


@dataclass(frozen=True)
class Level:
    """The values that a site, a CE or a queue sets itself.

    Attributes:
        common: parameters for every VO.
        by_vo: parameters for one VO, by its name in lower case.
        vos: VOs that may use it, lower case; empty: as at the level above.
    """

    common: Parameters = field(default_factory=dict)
    by_vo: Mapping[str, Parameters] = field(default_factory=dict)
    vos: tuple[str, ...] = ()

    def layers(self, vo: str) -> tuple[Parameters, ...]:
        """The parameters set at this level, in rising precedence."""
        own = self.by_vo.get(vo)
        return (self.common,) if own is None else (self.common, own)


@dataclass(frozen=True)
class ComputingElement:
    """A CE with its queues by name."""

    level: Level
    queues: Mapping[str, Level]


@dataclass(frozen=True)
class Site:
    """A site with its CEs by name."""

    level: Level
    ces: Mapping[str, ComputingElement]


@dataclass(frozen=True)
class EffectiveQueue:
    """A queue as one VO sees it: whether it may use it, and the parameters after inheritance."""

    name: QueueName
    admitted: bool
    parameters: Parameters


@dataclass(frozen=True)
class Resources:
    """All sites by name."""

    sites: Mapping[str, Site]

    @cached_property
    def queues(self) -> tuple[QueueName, ...]:
        """All queues, sorted; the columns of every result."""
        return tuple(sorted(name for name, *_ in self._chains()))

    def effective(self, vo: str) -> tuple[EffectiveQueue, ...]:
        """What a VO (lower case) finds at every queue, in the order of ``queues``."""
        queues = [_effective(name, levels, vo) for name, *levels in self._chains()]
        return tuple(sorted(queues, key=lambda queue: queue.name))

    @cached_property
    def version(self) -> str:
        """A hash of the content, 32 hex digits, over everything that affects eligibility."""
        document = [[name, [_document(level) for level in levels]] for name, *levels in self._chains()]
        text = json.dumps(sorted(document, key=lambda entry: entry[0]), ensure_ascii=True, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @cached_property
    def parameter_names(self) -> frozenset[str]:
        """Every name that some site, CE or queue gives a value, for any VO."""
        layers = (
            layer
            for _, *levels in self._chains()
            for level in levels
            for layer in (level.common, *level.by_vo.values())
        )
        return frozenset(name for layer in layers for name, value in layer.items() if value != ())

    def _chains(self) -> Iterator[tuple[QueueName, Level, Level, Level]]:
        for site_name, site in self.sites.items():
            for ce_name, ce in site.ces.items():
                for queue_name, queue in ce.queues.items():
                    yield QueueName(site_name, ce_name, queue_name), site.level, ce.level, queue


def _effective(name: QueueName, levels: Sequence[Level], vo: str) -> EffectiveQueue:
    merged: dict[str, ParameterValue] = {}
    for level in levels:
        for layer in level.layers(vo):
            merged.update(layer)
    # The list of VOs comes from the nearest level that has one; without any, the queue is open to all.
    vos = next((level.vos for level in reversed(levels) if level.vos), ())
    return EffectiveQueue(name, not vos or vo in vos, {key: value for key, value in merged.items() if value != ()})


def _document(level: Level) -> list[object]:
    return [dict(level.common), {vo: dict(own) for vo, own in level.by_vo.items()}, sorted(level.vos)]

"""Match one need against one queue, and many against all; each distinct need is judged once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np

from broker.domain.arrays import Ints
from broker.domain.queues import ANY, AUTO, ContainerSources, Hardware, QueueOffer
from broker.matching.availability import match_software
from broker.matching.hardware import match_hardware
from broker.matching.need import Need
from broker.matching.outcomes import Outcome

#: Needs remembered for the same queues.
MAX_REMEMBERED = 20_000

_AT_AUTO = -1
KeyT = TypeVar("KeyT", bound=Hashable)


def match_queue(need: Need, offer: QueueOffer, sources: ContainerSources, gpus_known: bool = True) -> Outcome:
    """How a queue meets a need; ``gpus_known``: whether the summary of GPUs can be used."""
    outcome = _by_releases(need, offer)
    if outcome is None:
        hardware = offer.software.hardware if offer.software is not None else Hardware()
        outcome = _hardware(need, hardware, offer, gpus_known)
    if outcome != Outcome.FITS or offer.releases != AUTO or offer.software is None or need.hardware_only:
        return outcome
    return match_software(need, offer.software, sources)


def _by_releases(need: Need, offer: QueueOffer) -> Outcome | None:
    """The outcome that needs no tags; None if tags decide."""
    asks = need.requirement.asks_hardware
    if need.fault is not None:
        # invalid JSON counts as an old string, with a platform that does not matter where any will do
        anything = offer.releases == ANY and need.fault.is_text and not asks
        return Outcome.FITS if anything else Outcome.ARCHITECTURE_INVALID
    if need.hardware_only and not asks:
        return Outcome.FITS
    if offer.releases == ANY:
        return Outcome.HARDWARE_UNKNOWN if asks else Outcome.FITS
    if offer.releases != AUTO:
        return Outcome.NOT_OFFERED
    if offer.software is None:
        return Outcome.NOT_PUBLISHED
    return None if offer.software.readable else Outcome.UNREADABLE


def _hardware(need: Need, hardware: Hardware, offer: QueueOffer, gpus_known: bool) -> Outcome:
    outcome = match_hardware(need.requirement, hardware, offer.gpus)
    gpu = need.requirement.gpu
    if gpus_known or gpu is None or not gpu.specific:
        return outcome
    of_gpus = Outcome.GPU < outcome <= Outcome.GPU_DRIVER
    return Outcome.GPU_SOURCE if of_gpus or outcome == Outcome.FITS else outcome


class SoftwareMatcher:
    """Judges needs against the same queues, each distinct need once.

    Args:
        offers: offers of all unified queues.
        sources: sources of containers.
        gpus_known: whether the summary of GPUs can be used.
    """

    def __init__(self, offers: Sequence[QueueOffer], sources: ContainerSources, gpus_known: bool = True) -> None:
        self.offers, self.sources, self.gpus_known = tuple(offers), sources, gpus_known
        self._rows: dict[Need, Ints] = {}
        self._hardware_of = _grouped(
            [(offer.software.hardware if offer.software else None, offer.gpus) for offer in self.offers]
        )
        self._software_of = _grouped([offer.software for offer in self.offers])

    def outcomes(self, need: Need) -> Ints:
        """(U,): the outcome at each queue; the array is shared and must not be changed."""
        row = self._rows.get(need)
        if row is None:
            if len(self._rows) >= MAX_REMEMBERED:
                self._rows.clear()
            row = self._rows[need] = self._judged(need)
            row.flags.writeable = False
        return row

    def _judged(self, need: Need) -> Ints:
        before = [_by_releases(need, offer) for offer in self.offers]
        result = np.array([_AT_AUTO if outcome is None else outcome for outcome in before], dtype=np.int64)
        self._fill(result, need, self._hardware_of, software=False)
        if not need.hardware_only:
            undecided = np.array([outcome is None for outcome in before], dtype=np.bool_)
            result[undecided & (result == Outcome.FITS)] = _AT_AUTO
            self._fill(result, need, self._software_of, software=True)
        return result

    def _fill(self, result: Ints, need: Need, group_of: Ints, *, software: bool) -> None:
        """Judge the undecided queues, one of each group."""
        waiting = np.flatnonzero(result == _AT_AUTO)
        if not len(waiting):
            return
        groups, first, place = np.unique(group_of[waiting], return_index=True, return_inverse=True)
        outcomes: Ints = np.empty(len(groups), dtype=np.int64)
        for index, queue in enumerate(waiting[first]):
            offer = self.offers[queue]
            tags = offer.software
            assert tags is not None  # noqa: S101 - a queue without tags does not wait
            outcomes[index] = (
                match_software(need, tags, self.sources)
                if software
                else _hardware(need, tags.hardware, offer, self.gpus_known)
            )
        result[waiting] = outcomes[place.ravel()]


def _grouped(keys: Sequence[KeyT]) -> Ints:
    """The number of each key, equal for equal keys."""
    number: dict[KeyT, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)


class SoftwareMatcherCache:
    """Keeps the matcher of the last queues: a cycle on queues that publish the same judges nothing again."""

    def __init__(self, kind: type[SoftwareMatcher] = SoftwareMatcher) -> None:
        """Start without a matcher; matchers are of ``kind``."""
        self._last: SoftwareMatcher | None = None
        self._kind = kind

    def matcher_of(
        self, offers: Sequence[QueueOffer], sources: ContainerSources, gpus_known: bool = True
    ) -> SoftwareMatcher:
        """The matcher of these queues, with its earlier judgements if they are those of the last call."""
        last = self._last
        if last is None or (last.offers, last.sources, last.gpus_known) != (tuple(offers), sources, gpus_known):
            last = self._last = self._kind(offers, sources, gpus_known)
        return last

"""Input and output between sites: stage-in to a job's slot, and output transfers to the nucleus."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from broker.simulation.model.events import EventQueue
from broker.simulation.model.network import Network
from broker.simulation.model.records import Tally
from broker.simulation.model.scenario import Scenario
from broker.simulation.model.streams import stream

#: Highest rate of one transfer in bytes/s.
MOST_BYTES_S = 100e6
#: Maximum attempts of a transfer, and the time between two: median and s of the lognormal.
MOST_ATTEMPTS, RETRY_S = 5, (900.0, 1.0)
Sent = Callable[[bool], None]


@dataclass(frozen=True)
class _Sending:
    """An output transfer: its bytes, the callback at its end, and the number of the attempt."""

    size: float
    done: Sent
    attempt: int = 1


class Transfers:
    """All transfers of a scenario over storages and links.

    An attempt on a link fails with the rate of the link: half of the failures occur at once, the others after a uniform
    part of their bytes (assumed). A failed attempt is repeated after LN(15 min, 1), up to five attempts in all.

    Args:
        scenario: scenario of the simulation.
        events: event queue that keeps the virtual time.
        tally: tally of the simulation.
        seed: seed of the draws.
    """

    def __init__(self, scenario: Scenario, events: EventQueue, tally: Tally, seed: int = 0) -> None:
        self._scenario, self._events, self._tally, self._seed = scenario, events, tally, seed
        self._failing: dict[tuple[int, int], np.random.Generator] = {}
        self._sites = len(scenario.sites)
        links = np.full((self._sites, self._sites), scenario.default_link_bytes_s)
        np.fill_diagonal(links, np.inf)
        for (source, target), rate in scenario.link_bytes_s.items():
            if source != target:
                links[source, target] = rate
        ways_out = [site.storage_out for site in scenario.sites]
        ways_in = [site.storage_in for site in scenario.sites]
        self.network = Network(events, np.concatenate([ways_out, ways_in, links.ravel()]), scenario.network_batch_s)
        self._queues: dict[tuple[int, int], deque[_Sending]] = {}
        self._may_be_out = bool(scenario.transfer_outages)
        self._active: dict[tuple[int, int], int] = {}
        self.waiting = 0

    def bandwidth(self, source: int, target: int) -> float:
        """Bytes/s of the link between two sites."""
        return self._scenario.link_bytes_s.get((source, target), self._scenario.default_link_bytes_s)

    def out(self, source: int, target: int) -> bool:
        """Whether the way between two sites is out now; with the same site twice, whether its storage is out."""
        if not self._scenario.transfer_outages:
            return False
        now = self._events.now
        return any(
            outage.start_s <= now < outage.end_s
            and (source in outage.sites or target in outage.sites or (source, target) in outage.links)
            for outage in self._scenario.transfer_outages
        )

    def source_for(self, site: int, sources: Sequence[int]) -> int:
        """The site from which a job reads: its own if it holds the input, else the source with the widest link."""
        if site in sources or not sources:
            return site
        return min(sources, key=lambda source: (-self.bandwidth(source, site), source))

    def reached_source(self, site: int, sources: Sequence[int]) -> int | None:
        """The source among those that are not out, None if all are; without sources the site itself."""
        if not self._may_be_out:
            return self.source_for(site, sources)
        reached = tuple(source for source in sources or (site,) if not self.out(source, site))
        return self.source_for(site, reached) if reached else None

    def stage_in(self, source: int, site: int, size: float, rate: float, done: Callable[[], None]) -> int:
        """Read input into a job's slot; local input does not use the way into the storage. Returns the flow."""
        rate = min(rate, MOST_BYTES_S)
        if source == site:
            return self.network.start((source,), size, rate, done)
        self._tally.sent(self._events.now, size)
        return self.network.start((source, self._link(source, site), self._sites + site), size, rate, done)

    def send(self, source: int, target: int, size: float, done: Sent) -> None:
        """Send output to the nucleus; the concurrent transfers of a link are limited, and the others wait in order.

        Args:
            source: site that has the output.
            target: site that receives it.
            size: bytes.
            done: called with whether the output arrived; false if the transfer was given up.
        """
        self._queue((source, target), _Sending(size, done))

    def _queue(self, link: tuple[int, int], sending: _Sending) -> None:
        if self._active.get(link, 0) < self._scenario.transfers_a_link:
            self._start(link, sending)
        else:
            self._queues.setdefault(link, deque()).append(sending)
            self.waiting += 1

    def queued(self, source: int, target: int) -> int:
        """Number of output transfers of a link that run or wait."""
        link = (source, target)
        return self._active.get(link, 0) + len(self._queues.get(link, ()))

    def links_in_use(self) -> dict[tuple[int, int], int]:
        """Number of output transfers by link, for links with any."""
        return {link: self.queued(*link) for link in self._active if self.queued(*link)}

    def _link(self, source: int, target: int) -> int:
        return 2 * self._sites + source * self._sites + target

    def _start(self, link: tuple[int, int], sending: _Sending) -> None:
        self._active[link] = self._active.get(link, 0) + 1
        source, target = link
        part = self._failing_part(link)
        moved = sending.size if part is None else part * sending.size

        def ended() -> None:
            self._active[link] -= 1
            self._tally.sent(self._events.now, moved)
            queue = self._queues.get(link)
            if queue:
                self.waiting -= 1
                self._start(link, queue.popleft())
            if part is None:
                sending.done(True)
            else:
                self._failed(link, sending, moved)

        if moved > 0:
            self.network.start((source, self._link(source, target), self._sites + target), moved, MOST_BYTES_S, ended)
        else:
            self._events.after(0.0, ended)

    def _failing_part(self, link: tuple[int, int]) -> float | None:
        """The part of its bytes after which an attempt fails; None if it does not fail."""
        if self.out(*link):
            return 0.0
        rate = self._scenario.transfer_failures.links.get(link, 0.0)
        if rate <= 0:
            return None
        drawn, at_once, part = self._random(link).random(3).tolist()
        return None if drawn >= rate else 0.0 if at_once < 0.5 else part

    def _failed(self, link: tuple[int, int], sending: _Sending, moved: float) -> None:
        self._tally.failed_transfers += 1
        self._tally.wasted_bytes += moved
        if sending.attempt >= MOST_ATTEMPTS:
            sending.done(False)
            return
        delay_s = RETRY_S[0] * math.exp(RETRY_S[1] * self._random(link).standard_normal())
        self._events.after(delay_s, self._queue, link, _Sending(sending.size, sending.done, sending.attempt + 1))

    def _random(self, link: tuple[int, int]) -> np.random.Generator:
        if link not in self._failing:
            self._failing[link] = stream(self._seed, f"link {link[0]} {link[1]}", "transfer failure")
        return self._failing[link]

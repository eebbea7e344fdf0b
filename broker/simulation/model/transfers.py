"""Input and output between sites: stage-in into a job's slot, and output that follows to the nucleus."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from broker.simulation.model.events import EventQueue
from broker.simulation.model.network import Network
from broker.simulation.model.records import Tally
from broker.simulation.model.scenario import Scenario

#: Highest rate of one transfer in bytes/s.
MOST_BYTES_S = 100e6


class Transfers:
    """All transfers of a scenario over storages and links."""

    def __init__(self, scenario: Scenario, events: EventQueue, tally: Tally) -> None:
        self._scenario, self._events, self._tally = scenario, events, tally
        self._sites = len(scenario.sites)
        links = np.full((self._sites, self._sites), scenario.default_link_bytes_s)
        np.fill_diagonal(links, np.inf)
        for (source, target), rate in scenario.link_bytes_s.items():
            if source != target:
                links[source, target] = rate
        ways_out = [site.storage_out for site in scenario.sites]
        ways_in = [site.storage_in for site in scenario.sites]
        self.network = Network(events, np.concatenate([ways_out, ways_in, links.ravel()]), scenario.network_batch_s)
        self._queues: dict[tuple[int, int], deque[tuple[float, Callable[[], None]]]] = {}
        self._active: dict[tuple[int, int], int] = {}
        self._nearest: dict[tuple[int, tuple[int, ...]], int] = {}
        self.waiting = 0

    def bandwidth(self, source: int, target: int) -> float:
        """Bytes/s of the link between two sites."""
        return self._scenario.link_bytes_s.get((source, target), self._scenario.default_link_bytes_s)

    def source_for(self, site: int, sources: Sequence[int]) -> int:
        """The site from which a job reads: its own if the input is there, else that with the widest link."""
        key = (site, tuple(sources))
        if key not in self._nearest:
            others = sorted(sources, key=lambda source: (-self.bandwidth(source, site), source))
            self._nearest[key] = site if site in sources else others[0]
        return self._nearest[key]

    def stage_in(self, source: int, site: int, size: float, rate: float, done: Callable[[], None]) -> int:
        """Read input into a job's slot; local input does not pass the storage's way in. Returns the flow."""
        rate = min(rate, MOST_BYTES_S)
        if source == site:
            return self.network.start((source,), size, rate, done)
        self._tally.sent(self._events.now, size)
        return self.network.start((source, self._link(source, site), self._sites + site), size, rate, done)

    def send(self, source: int, target: int, size: float, done: Callable[[], None]) -> None:
        """Send output to the nucleus: so many at a time on a link, the others wait in order."""
        link = (source, target)
        if self._active.get(link, 0) < self._scenario.transfers_a_link:
            self._start(link, size, done)
        else:
            self._queues.setdefault(link, deque()).append((size, done))
            self.waiting += 1

    def queued(self, source: int, target: int) -> int:
        """Output transfers of a link that run or wait."""
        link = (source, target)
        return self._active.get(link, 0) + len(self._queues.get(link, ()))

    def links_in_use(self) -> dict[tuple[int, int], int]:
        """Output transfers by link, of those that have any."""
        return {link: self.queued(*link) for link in self._active if self.queued(*link)}

    def _link(self, source: int, target: int) -> int:
        return 2 * self._sites + source * self._sites + target

    def _start(self, link: tuple[int, int], size: float, done: Callable[[], None]) -> None:
        self._active[link] = self._active.get(link, 0) + 1
        source, target = link
        resources = (source, self._link(source, target), self._sites + target)

        def ended() -> None:
            self._active[link] -= 1
            self._tally.sent(self._events.now, size)
            queue = self._queues.get(link)
            if queue:
                self.waiting -= 1
                self._start(link, *queue.popleft())
            done()

        self.network.start(resources, size, MOST_BYTES_S, ended)

"""Separate hosts on one machine: network namespaces, with a switch between each pair that can be cut silently.

Needs root and ``ip`` of iproute2. A switch is a bridge in a separate namespace: while it is down, both ends keep their
carrier and their routes, and no packet arrives, as with a firewall that drops everything.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


def ip(*words: str) -> None:
    """Run ``ip``.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Hosts:
    """Named hosts, each pair connected.

    Attributes:
        names: the names of the hosts.
    """

    def __init__(self, *names: str) -> None:
        self.names = names
        self._mark = f"gb{os.getpid()}"
        self._switch = f"{self._mark}-switch"
        self._pairs = {frozenset(pair): number for number, pair in enumerate(combinations(names, 2), start=1)}

    def make(self) -> None:
        """Create and connect the namespaces."""
        for space in (self._switch, *map(self._space, self.names)):
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        for pair, number in self._pairs.items():
            ip("-n", self._switch, "link", "add", f"s{number}", "type", "bridge")
            ip("-n", self._switch, "link", "set", f"s{number}", "up")
            for side, name in enumerate(sorted(pair), start=1):
                self._join(name, number, side)

    def _join(self, name: str, number: int, side: int) -> None:
        end, port = f"e{number}", f"p{number}{side}"
        peer = ("peer", "name", port, "netns", self._switch)
        ip("link", "add", "name", end, "netns", self._space(name), "type", "veth", *peer)
        ip("-n", self._switch, "link", "set", port, "master", f"s{number}")
        ip("-n", self._switch, "link", "set", port, "up")
        ip("-n", self._space(name), "address", "add", f"10.77.{number}.{side}/24", "dev", end)
        ip("-n", self._space(name), "link", "set", end, "up")

    def remove(self) -> None:
        """Remove the namespaces; processes still inside lose their network."""
        for space in (*map(self._space, self.names), self._switch):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)

    def address(self, name: str, seen_from: str) -> str:
        """Return the address of a host on its link with another host."""
        pair = frozenset((name, seen_from))
        return f"10.77.{self._pairs[pair]}.{sorted(pair).index(name) + 1}"

    @contextmanager
    def cut(self, first: str, second: str) -> Iterator[None]:
        """Drop all packets between two hosts until the block ends, without notifying either."""
        switch = f"s{self._pairs[frozenset((first, second))]}"
        ip("-n", self._switch, "link", "set", switch, "down")
        try:
            yield
        finally:
            ip("-n", self._switch, "link", "set", switch, "up")

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Move this thread and its new processes to a host until the block ends."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        target = os.open(Path("/run/netns") / self._space(name), os.O_RDONLY)
        try:
            _enter(target)
            try:
                yield
            finally:
                _enter(home)
        finally:
            os.close(home)
            os.close(target)

    def _space(self, name: str) -> str:
        return f"{self._mark}-{name}"


def _enter(space: int) -> None:
    if _LIBC.setns(space, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")

"""Hosts of their own on one machine: network namespaces with a switch between each two, which can be cut silently.

Needs root and ``ip`` of iproute2. A switch is a bridge in a namespace of its own: while it is down, both ends keep
their carrier and their routes, and nothing arrives, as when a firewall drops everything.
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
        subprocess.CalledProcessError: it failed.
    """
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Hosts:
    """Hosts by name, each two of them joined.

    Attributes:
        names: of the hosts.
    """

    def __init__(self, *names: str) -> None:
        self.names = names
        self._mark = f"gb{os.getpid()}"
        self._switch = f"{self._mark}-switch"
        self._pairs = {frozenset(pair): number for number, pair in enumerate(combinations(names, 2), start=1)}

    def make(self) -> None:
        """Make the namespaces and join them."""
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
        there = ("peer", "name", port, "netns", self._switch)
        ip("link", "add", "name", end, "netns", self._space(name), "type", "veth", *there)
        ip("-n", self._switch, "link", "set", port, "master", f"s{number}")
        ip("-n", self._switch, "link", "set", port, "up")
        ip("-n", self._space(name), "address", "add", f"10.77.{number}.{side}/24", "dev", end)
        ip("-n", self._space(name), "link", "set", end, "up")

    def remove(self) -> None:
        """Remove them; what still runs in them has no network any more."""
        for space in (*map(self._space, self.names), self._switch):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)

    def address(self, name: str, seen_from: str) -> str:
        """The address of a host on its link with another one."""
        pair = frozenset((name, seen_from))
        return f"10.77.{self._pairs[pair]}.{sorted(pair).index(name) + 1}"

    @contextmanager
    def cut(self, one: str, other: str) -> Iterator[None]:
        """Nothing passes between two hosts while the block runs, and neither is told."""
        switch = f"s{self._pairs[frozenset((one, other))]}"
        ip("-n", self._switch, "link", "set", switch, "down")
        try:
            yield
        finally:
            ip("-n", self._switch, "link", "set", switch, "up")

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """This thread, and what it starts, is on a host while the block runs."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(Path("/run/netns") / self._space(name), os.O_RDONLY)
        try:
            _enter(there)
            try:
                yield
            finally:
                _enter(home)
        finally:
            os.close(home)
            os.close(there)

    def _space(self, name: str) -> str:
        return f"{self._mark}-{name}"


def _enter(space: int) -> None:
    if _LIBC.setns(space, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")

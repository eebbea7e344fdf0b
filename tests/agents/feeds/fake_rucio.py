"""A fake Rucio with the contents and failures that a test sets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.feeds.model.rucio.answers import Did
from broker.feeds.model.rucio.questions import NotAtRucio, RucioUnavailable

Rows = list[Mapping[str, Any]]


def replica(rse: str, available: int = 5, total: int = 5) -> dict[str, Any]:
    """A row of ``list_dataset_replicas``."""
    sizes = {"available_bytes": 100 * available, "bytes": 100 * total}
    return {"rse": rse, "available_length": available, "length": total, "state": "AVAILABLE", **sizes}


@dataclass
class FakeRucio:
    """Answers by DID; ``asked`` has every question in order, ``most_at_once`` the most that waited together;
    ``before`` is called before each answer."""

    replicas: dict[Did, Rows] = field(default_factory=dict)
    containers: dict[Did, list[Did]] = field(default_factory=dict)
    open: set[Did] = field(default_factory=set)
    files: dict[Did, Rows] = field(default_factory=dict)
    virtual: dict[Did, Rows] = field(default_factory=dict)
    usage: dict[str, Rows] = field(default_factory=dict)
    accounts: dict[str, tuple[Rows, Rows]] = field(default_factory=dict)
    failing: set[Any] = field(default_factory=set)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    meeting: threading.Barrier | None = None
    before: Callable[[str], object] = lambda question: None

    def _ask(self, question: str, about: Any) -> None:
        self.before(question)
        with self.lock:
            self.asked.append((question, about))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        if self.meeting is not None and question == "metadata":
            self.meeting.wait(10)
        with self.lock:
            self.at_once -= 1
        if about in self.failing or question in self.failing:
            raise RucioUnavailable("no answer", "a test")

    def metadata(self, did: Did) -> Mapping[str, Any]:
        self._ask("metadata", did)
        if did in self.containers:
            return {"did_type": "CONTAINER", "length": None, "is_open": True}
        if did not in self.replicas:
            raise NotAtRucio("not known", "a test")
        return {"did_type": "DATASET", "length": 5, "is_open": did in self.open}

    def dataset_replicas(self, did: Did, *, deep: bool) -> Rows:
        self._ask("deep" if deep else "replicas", did)
        if did not in self.replicas:
            raise NotAtRucio("not known", "a test")
        return list(self.replicas[did])

    def virtual_placements(self, did: Did, *, deep: bool) -> Rows:
        self._ask("virtual", did)
        return self.virtual.get(did, [])

    def contents(self, did: Did) -> Rows:
        self._ask("contents", did)
        return [{"scope": scope, "name": name} for scope, name in self.containers[did]]

    def rule_groupings(self, did: Did) -> tuple[str, ...]:
        self._ask("rules", did)
        return ("DATASET",)

    def file_replicas(self, did: Did) -> Rows:
        self._ask("files", did)
        if did not in self.replicas:
            raise NotAtRucio("not known", "a test")
        return self.files.get(did, [])

    def tape_endpoints(self) -> dict[str, bool]:
        self._ask("endpoints", None)
        return {"TAPE": True, "DISK": False}

    def space(self, rse: str) -> Rows:
        self._ask("space", rse)
        if rse not in self.usage:
            raise NotAtRucio("not known", "a test")
        return self.usage[rse]

    def local_usage(self, account: str) -> Rows:
        self._ask("local", account)
        if account not in self.accounts:
            raise NotAtRucio("not known", "a test")
        return self.accounts[account][0]

    def global_usage(self, account: str) -> Rows:
        self._ask("global", account)
        return self.accounts[account][1]

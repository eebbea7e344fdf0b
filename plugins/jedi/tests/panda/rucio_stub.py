"""Rucio as PanDA's clients see it, answered from the replica catalogue of a scenario."""

from __future__ import annotations

import sys
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]
Did = tuple[str, str]

_ERRORS = (
    "CannotAuthenticate", "DataIdentifierAlreadyExists", "DataIdentifierNotFound", "Duplicate", "DuplicateContent",
    "DuplicateRule", "FileAlreadyExists", "FileConsistencyMismatch", "InsufficientAccountLimit", "InvalidObject",
    "InvalidPath", "InvalidRSEExpression", "RSEFileNameNotSupported", "RSENotFound", "RSEProtocolNotSupported",
    "RuleNotFound", "UnsupportedOperation", "RucioException",
)  # fmt: skip


class NotCataloguedError(Exception):
    """The catalogue does not know the name; installed as Rucio's ``DataIdentifierNotFound``."""


@dataclass
class ReplicaTables:
    """Rows of the scenario's catalogue tables, and the files of the datasets."""

    replicas: list[Row] = field(default_factory=list)
    named_files: list[Row] = field(default_factory=list)
    metadata: list[Row] = field(default_factory=list)
    contents: list[Row] = field(default_factory=list)
    global_usage: list[Row] = field(default_factory=list)
    local_usage: list[Row] = field(default_factory=list)
    #: File names of each dataset by file id, and the scope of each.
    files: dict[Did, list[tuple[str, str]]] = field(default_factory=dict)
    _places: dict[str, list[tuple[Did, int]]] = field(default_factory=dict)
    _replicas_of: dict[Did, list[Row]] = field(default_factory=dict)

    def arrange(self) -> None:
        """Make it quick to look up files and replicas by name; to be called when rows were changed."""
        self._places, self._replicas_of = {}, {}
        for did, files in self.files.items():
            for place, (lfn, _) in enumerate(files):
                self._places.setdefault(lfn, []).append((did, place))
        for row in self.replicas:
            self._replicas_of.setdefault((row["scope"], _bare(row["name"])), []).append(row)

    def places(self, lfn: str) -> list[tuple[Did, int]]:
        """The datasets of a file, and its place among the files of each."""
        return self._places.get(lfn, [])

    def replicas_of(self, did: Did) -> list[Row]:
        """The replicas of a dataset."""
        return self._replicas_of.get(did, [])


def _bare(name: str) -> str:
    return name[:-1] if name.endswith("/") else name


TABLES = ReplicaTables()


class Client:
    """The calls of Rucio's client that PanDA's brokerage makes."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def get_metadata(self, scope: str, name: str) -> dict[str, Any]:
        """Kind and length of a DID."""
        did = (scope, _bare(name))
        metadata = next((row for row in TABLES.metadata if (row["scope"], _bare(row["name"])) == did), None)
        container = any((row["scope"], _bare(row["name"])) == did for row in TABLES.contents)
        rows = TABLES.replicas_of(did)
        if metadata is None and not rows and not container:
            raise NotCataloguedError(f"{scope}:{name}")
        length = None if metadata is None else metadata.get("length")
        if length is None:
            known = [row["total_files"] for row in rows if row.get("total_files") is not None]
            length = max(known) if known else None
        kind = None if metadata is None else metadata.get("did_type")
        return {
            "did_type": kind or ("CONTAINER" if container else "DATASET"),
            "length": length,
            "is_open": bool(metadata and metadata.get("is_open")),
        }

    def list_did_rules(self, scope: str, name: str) -> Iterator[dict[str, Any]]:
        """Replication rules, of which only the grouping is known."""
        did = (scope, _bare(name))
        metadata = next((row for row in TABLES.metadata if (row["scope"], _bare(row["name"])) == did), None)
        groupings = None if metadata is None else metadata.get("rule_groupings")
        if metadata is None:
            groupings = ["DATASET"] if TABLES.replicas_of(did) else []
        for grouping in groupings or []:
            yield {"grouping": grouping}

    def list_dataset_replicas(self, scope: str, name: str, deep: bool = False) -> Iterator[dict[str, Any]]:
        """Replicas that are no virtual placement."""
        for row in TABLES.replicas_of((scope, _bare(name))):
            if row.get("state") != "VP":
                yield self._as_replica(row)

    def list_dataset_replicas_vp(self, scope: str, name: str) -> Iterator[dict[str, Any]]:
        """Virtual placements."""
        for row in TABLES.replicas_of((scope, _bare(name))):
            if row.get("state") == "VP":
                yield {"rse": row["rse"], "vp": True}

    def list_content(self, scope: str, name: str) -> Iterator[dict[str, Any]]:
        """Constituents of a container."""
        for row in TABLES.contents:
            if (row["scope"], _bare(row["name"])) == (scope, _bare(name)):
                yield {"scope": row["child_scope"], "name": row["child_name"], "type": "DATASET"}

    def list_files(self, scope: str, name: str, **_: Any) -> Iterator[dict[str, Any]]:
        """Files of a dataset; those of a container belong to its parts in their order, each as many as its length."""
        did = (scope, _bare(name))
        for lfn, of_file in TABLES.files.get(did) or self._files_of_part(did):
            yield {"scope": of_file, "name": lfn}

    def _files_of_part(self, did: Did) -> list[tuple[str, str]]:
        for row in TABLES.contents:
            if (row["child_scope"], row["child_name"]) == did:
                container = (row["scope"], _bare(row["name"]))
                files, first = TABLES.files.get(container, []), 0
                for part in self._parts(container):
                    length = self.get_metadata(*part)["length"] or 0
                    if part == did:
                        return files[first : first + length]
                    first += length
        return []

    def list_replicas(self, dids: Iterable[Mapping[str, str]], **_: Any) -> Iterator[dict[str, Any]]:
        """The endpoints of single files."""
        named: dict[str, set[str]] = {}
        for row in TABLES.named_files:
            named.setdefault(row["name"], set()).add(row["rse"])
        for did in dids:
            places = named.get(did["name"])
            if places is None:
                places = self._first_files(did["name"])
            if places:
                yield {"name": did["name"], "rses": {rse: ["path"] for rse in sorted(places)}}

    def get_global_account_usage(self, account: str) -> list[Row]:
        """Quota lines of an account over sets of endpoints."""
        return [row for row in TABLES.global_usage if row["account"] == account]

    def get_local_account_usage(self, account: str) -> list[Row]:
        """Quota lines of an account at single endpoints."""
        return [row for row in TABLES.local_usage if row["account"] == account]

    def list_accounts(self, account_type: str, identity: str) -> Iterator[dict[str, Any]]:
        """The account of a user: the scenario names accounts as PanDA names users."""
        if account_type == "USER":
            yield {"account": identity, "email": None}

    def get_account(self, account: str) -> dict[str, Any]:
        """One account."""
        return {"account": account, "email": None}

    def _first_files(self, name: str) -> set[str]:
        """An unnamed file is where its dataset has as many files as its place among them; a container, in all parts."""
        found: set[str] = set()
        for did, place in TABLES.places(name):
            available: Counter[str] = Counter()
            for part in (did, *self._parts(did)):
                for row in TABLES.replicas_of(part):
                    if row.get("state") != "VP":
                        available[str(row["rse"])] += row.get("available_files") or 0
            found |= {rse for rse, files in available.items() if place < files}
        return found

    def _parts(self, did: Did) -> list[Did]:
        return [
            (row["child_scope"], row["child_name"])
            for row in TABLES.contents
            if (row["scope"], _bare(row["name"])) == did
        ]

    def _as_replica(self, row: Row) -> dict[str, Any]:
        return {
            "rse": row["rse"],
            "length": row.get("total_files"),
            "available_length": row.get("available_files"),
            "bytes": row.get("total_bytes"),
            "available_bytes": row.get("available_bytes"),
            "vp": False,
        }


def install() -> None:
    """Make ``rucio.client`` and its exceptions importable."""
    rucio, client = types.ModuleType("rucio"), types.ModuleType("rucio.client")
    common, exception = types.ModuleType("rucio.common"), types.ModuleType("rucio.common.exception")
    client.Client = Client  # type: ignore[attr-defined]
    for name in _ERRORS:
        setattr(exception, name, type(name, (Exception,), {}))
    exception.DataIdentifierNotFound = NotCataloguedError  # type: ignore[attr-defined]
    modules = {"rucio": rucio, "rucio.client": client, "rucio.common": common, "rucio.common.exception": exception}
    for name, module in modules.items():
        sys.modules.setdefault(name, module)

"""Register the output of jobs in Rucio, with its own client.

Each method may be called again after a crash: objects that exist already are no error. Measured with Rucio 41.5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from broker.errors import BrokerError
from broker.feeds.model.rucio.answers import Did
from broker.feeds.model.rucio.questions import RucioUnavailable
from broker.feeds.model.rucio.writing import CLOSED, EXISTS, DatasetState, RucioRefused, Rule

#: The request is not at fault: the server, the connection to it, or the account is.
_NO_ANSWER = frozenset(
    {"RucioException", "DatabaseException", "ServerConnectionException", "ServiceUnavailable", "ClientProtocolNotFound"}
    | {
        "CannotAuthenticate",
        "CannotAuthorize",
        "MissingClientParameter",
        "ConfigNotFound",
        "ResourceTemporaryUnavailable",
    }
)


class RucioWritingClient:
    """Writes to Rucio with its own client."""

    def __init__(self, time_limit_s: float) -> None:
        """Prepare the client; it connects at the first call.

        Raises:
            BrokerError: the package ``rucio-clients`` is not installed.
        """
        try:
            from rucio.client import Client
            from rucio.common.config import clean_cached_config
        except ImportError as error:
            remedy = "pip install gridbroker[rucio]"
            raise BrokerError(f"the package rucio-clients is not installed ({error})", "outputs", remedy) from error
        self.time_limit_s = time_limit_s
        self._make: Callable[..., Any] = Client
        self._client: Any = None
        clean_cached_config()

    def add_dataset(self, did: Did, rule: Rule | None) -> None:
        """Create a dataset with its rule; where the dataset exists already, add the rule if an equal one is missing."""
        rules = None if rule is None else [self._rule(rule)]
        try:
            self._call(lambda client: client.add_dataset(*did, rules=rules))
        except RucioRefused as error:
            if error.kind not in EXISTS:
                raise
            if rule is not None and self.state_of(did).is_dataset:
                self._add_rule(did, rule)

    def add_to_container(self, container: Did, did: Did) -> None:
        """Attach a dataset to a container, created where it does not exist."""
        dids = [{"scope": did[0], "name": did[1]}]
        for call in (
            lambda client: client.add_container(*container),
            lambda client: client.attach_dids(*container, dids),
        ):
            self._call_idempotently(call)

    def add_files(self, did: Did, rse: str, files: Sequence[Mapping[str, Any]]) -> None:
        """Register files at an RSE and attach them to a dataset, all of them or none."""
        datasets = [{"scope": did[0], "name": did[1], "rse": rse, "dids": [dict(file) for file in files]}]
        self._call(lambda client: client.add_files_to_datasets(datasets, ignore_duplicate=True))

    def about_files(self, dids: Sequence[Did]) -> dict[Did, Mapping[str, Any]]:
        """Return the metadata of those files that Rucio knows, by DID."""
        files = [{"scope": scope, "name": name} for scope, name in dids]
        rows = self._call(lambda client: list(client.get_metadata_bulk(files)))
        return {(row["scope"], row["name"]): row for row in rows}

    def files_of(self, did: Did) -> Iterator[Mapping[str, Any]]:
        """Iterate over the files of a dataset."""
        rows: list[Mapping[str, Any]] = self._call(lambda client: list(client.list_files(*did)))
        return iter(rows)

    def state_of(self, did: Did) -> DatasetState:
        """Return the current state of a dataset, with its files counted by Rucio."""
        row = self._call(lambda client: client.get_did(*did, dynamic_depth="FILE"))
        is_dataset = str(row.get("type")).upper().endswith("DATASET")
        return DatasetState(is_dataset, bool(row.get("open")), row.get("length") or 0, row.get("bytes") or 0)

    def set_open(self, did: Did, is_open: bool) -> None:
        """Open or close a dataset; one that already is so is left as it is."""
        try:
            self._call(lambda client: client.set_status(*did, open=is_open))
        except RucioRefused as error:
            # Rucio also refuses where nothing would change
            if error.kind != CLOSED or self.state_of(did).is_open != is_open:
                raise

    def _rule(self, rule: Rule) -> dict[str, Any]:
        account = rule.account or self._call(lambda client: client.account)
        fields = {"account": account, "copies": rule.copies, "rse_expression": rule.rse_expression}
        return {**fields, "grouping": "DATASET", "lifetime": rule.lifetime_s}

    def _add_rule(self, did: Did, rule: Rule) -> None:
        fields = self._rule(rule)
        same = ("account", "copies", "rse_expression")
        rules = self._call(lambda client: list(client.list_did_rules(*did)))
        if any(all(str(existing.get(key)) == str(fields[key]) for key in same) for existing in rules):
            return
        dids = [{"scope": did[0], "name": did[1]}]
        self._call_idempotently(lambda client: client.add_replication_rule(dids, **fields))

    def _call_idempotently(self, call: Callable[[Any], Any]) -> None:
        try:
            self._call(call)
        except RucioRefused as error:
            if error.kind not in EXISTS:
                raise

    def _call(self, call: Callable[[Any], Any]) -> Any:
        try:
            if self._client is None:
                self._client = self._make(timeout=self.time_limit_s)
            return call(self._client)
        except Exception as error:  # whatever the client lets through: errors of the network, of the server and its own
            kind = type(error).__name__
            lines = [line for line in str(error).splitlines() if line.strip()]
            what = " ".join(lines[:2])[:300].replace("Details: ", "")
            if "RucioException" in {base.__name__ for base in type(error).__mro__} and kind not in _NO_ANSWER:
                raise RucioRefused(kind, what) from error
            raise RucioUnavailable(f"{kind}: {what[:200]}", "Rucio", "see rucio.cfg and the server") from error

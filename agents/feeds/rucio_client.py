"""Queries Rucio with its own client; the package ``rucio-clients`` is the extra ``rucio``.

The client takes its settings and credentials from ``rucio.cfg``, which is read again for each new connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from broker.errors import BrokerError
from broker.feeds.model.rucio.answers import Did
from broker.feeds.model.rucio.questions import NotAtRucio, RucioUnavailable

#: Source: rucio.common.exception; the server's errors for an unknown DID, account or RSE.
_NOT_THERE = ("DataIdentifierNotFound", "AccountNotFound", "RSENotFound")


class RucioClient:
    """Queries Rucio with its own client, one for each thread.

    Attributes:
        time_limit_s: of the wait for any part of an answer.
    """

    def __init__(self, time_limit_s: float) -> None:
        """Prepare the client; it connects at the first query.

        Raises:
            BrokerError: the package ``rucio-clients`` is not installed.
        """
        try:
            from rucio.client import Client
            from rucio.common.config import clean_cached_config
        except ImportError as error:
            raise BrokerError(
                f"the package rucio-clients is not installed ({error})",
                "feeds from Rucio",
                "pip install gridbroker[rucio]",
            ) from error
        self.time_limit_s = time_limit_s
        self._make: Callable[..., Any] = Client
        self._threads = threading.local()
        clean_cached_config()

    def metadata(self, did: Did) -> Mapping[str, Any]:
        """Return the metadata of a DID; raises :class:`NotAtRucio`."""
        metadata: Mapping[str, Any] = self._ask(lambda client: client.get_metadata(*did))
        return metadata

    def dataset_replicas(self, did: Did, *, deep: bool) -> list[Mapping[str, Any]]:
        """List the replicas of a dataset, ``deep``: from those of its files; raises :class:`NotAtRucio`."""
        return self._rows(lambda client: client.list_dataset_replicas(*did, deep=deep))

    def virtual_placements(self, did: Did, *, deep: bool) -> list[Mapping[str, Any]]:
        """List the virtual placements of a dataset; ``deep``: from those of its files."""
        rows = self._rows(lambda client: client.list_dataset_replicas_vp(*did, deep=deep))
        return [row for row in rows if isinstance(row, Mapping)]

    def contents(self, did: Did) -> list[Mapping[str, Any]]:
        """List the datasets and containers in a container; raises :class:`NotAtRucio`."""
        return self._rows(lambda client: client.list_content(*did))

    def files(self, did: Did) -> Iterator[Mapping[str, Any]]:
        """Iterate over the files of a dataset or container as Rucio sends them; raises :class:`NotAtRucio`."""
        rows: Iterator[Mapping[str, Any]] = self._ask(lambda client: iter(client.list_files(*did)))
        end: Mapping[str, Any] = {}
        while (row := self._ask(lambda _: next(rows, end))) is not end:
            yield row

    def rule_groupings(self, did: Did) -> tuple[str, ...]:
        """Return the name of the grouping of each replication rule of a DID."""
        rules = self._rows(lambda client: client.list_did_rules(*did))
        return tuple(str(getattr(rule.get("grouping"), "name", rule.get("grouping"))) for rule in rules)

    def file_replicas(self, did: Did) -> list[Mapping[str, Any]]:
        """List the replicas of each file of a dataset, in all states; raises :class:`NotAtRucio`."""
        dids = [{"scope": did[0], "name": did[1]}]
        return self._rows(lambda client: client.list_replicas(dids, all_states=True))

    def tape_endpoints(self) -> dict[str, bool]:
        """Return for each RSE, by name, whether it is tape."""
        rows = self._rows(lambda client: client.list_rses())
        return {str(row.get("rse")): str(row.get("rse_type")).upper().endswith("TAPE") for row in rows}

    def space(self, rse: str) -> list[Mapping[str, Any]]:
        """List the rows of an RSE's usage, one for each source of the figures; raises :class:`NotAtRucio`."""
        return self._rows(lambda client: client.get_rse_usage(rse))

    def local_usage(self, account: str) -> list[Mapping[str, Any]]:
        """List an account's usage and limits by RSE; raises :class:`NotAtRucio`."""
        return self._rows(lambda client: client.get_local_account_usage(account))

    def global_usage(self, account: str) -> list[Mapping[str, Any]]:
        """List an account's usage and limits by RSE expression; raises :class:`NotAtRucio`."""
        return self._rows(lambda client: client.get_global_account_usage(account))

    def _rows(self, question: Callable[[Any], Any]) -> list[Mapping[str, Any]]:
        return list(self._ask(lambda client: list(question(client))))

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        try:
            client = getattr(self._threads, "client", None)
            if client is None:
                client = self._threads.client = self._make(timeout=self.time_limit_s)
            return question(client)
        except Exception as error:  # whatever the client lets through: errors of the network, of the server and its own
            kinds = {kind.__name__ for kind in type(error).__mro__}
            first_line = (str(error).splitlines() or [""])[0][:200]
            if kinds.intersection(_NOT_THERE):
                raise NotAtRucio(first_line or "not known", "Rucio") from error
            what = f"{type(error).__name__}: {first_line}"
            raise RucioUnavailable(what, "Rucio", "see rucio.cfg and the server") from error

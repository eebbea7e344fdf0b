"""Where the contents of input datasets come from: Rucio, queried with its own client when needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.feeds.rucio_client import RucioClient
from broker.errors import BrokerError, Refused
from broker.feeds.model.rucio.questions import NotAtRucio, Rucio, RucioUnavailable
from broker.tasks.model.task import InputFile

Did = tuple[str, str]
TIME_LIMIT_S = 60.0
_LONGEST_LFN, _LARGEST = 250, 2**63 - 1


class CatalogueUnavailable(Refused):
    """Rucio gave no answer, so nothing was submitted."""


@dataclass(frozen=True)
class RucioDid:
    """A dataset or container that Rucio knows."""

    is_open: bool
    is_container: bool


def rucio_client() -> Rucio:
    """Rucio as ``rucio.cfg`` names it."""
    return RucioClient(TIME_LIMIT_S)


@dataclass
class InputSources:
    """Rucio, connected at the first query.

    Attributes:
        connect: opens the connection.
    """

    connect: Callable[[], Rucio] = rucio_client
    _rucio: Rucio | None = field(default=None, repr=False)

    def _client(self) -> Rucio:
        if self._rucio is None:
            try:
                self._rucio = self.connect()
            except BrokerError as error:
                remedy = "nothing was submitted; mend it, or list the files in the parameters"
                raise CatalogueUnavailable(error.what, "Rucio", f"{error.remedy}; {remedy}") from error
        return self._rucio

    def find(self, did: Did) -> RucioDid | None:
        """What Rucio knows about a DID; None if it knows nothing.

        Raises:
            CatalogueUnavailable: Rucio gave no answer.
        """
        try:
            metadata = self._client().metadata(did)
        except NotAtRucio:
            return None
        except RucioUnavailable as error:
            raise _unavailable(did, error) from error
        is_container = str(metadata.get("did_type")).upper().endswith("CONTAINER")
        return RucioDid(metadata.get("is_open") is True, is_container)

    def constituents(self, did: Did) -> tuple[str, ...]:
        """The datasets of a container as ``scope:name``, in the order of their names."""
        try:
            rows = self._client().contents(did)
        except (NotAtRucio, RucioUnavailable) as error:
            raise _unavailable(did, error) from error
        return tuple(sorted(f"{row['scope']}:{row['name']}" for row in rows))

    def files(self, did: Did) -> Iterator[InputFile]:
        """The files of a dataset, as they come.

        Raises:
            CatalogueUnavailable: the answer breaks off, or a file in it cannot be used.
        """
        try:
            for row in self._client().files(did):
                yield _file(did, row)
        except (NotAtRucio, RucioUnavailable) as error:
            raise _unavailable(did, error) from error


def _unavailable(did: Did, error: Exception) -> CatalogueUnavailable:
    what = error.args[0] if error.args else "no answer"
    remedy = "nothing was submitted; see rucio.cfg and the server, or list the files in the parameters"
    return CatalogueUnavailable(f"Rucio does not say what is in it: {what}", ":".join(did), remedy)


def _file(did: Did, row: Mapping[str, Any]) -> InputFile:
    name, scope, checksum = row.get("name"), row.get("scope"), row.get("adler32")
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_LFN or "\0" in name:
        raise CatalogueUnavailable(
            f"a file has no usable name: {str(name)[:60]!r}", ":".join(did), "look at the dataset"
        )
    return InputFile(
        name,
        scope if isinstance(scope, str) else did[0],
        _number(row.get("bytes")),
        _number(row.get("events")),
        f"ad:{checksum}" if isinstance(checksum, str) and checksum else None,
        str(row["guid"]) if row.get("guid") else None,
    )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None

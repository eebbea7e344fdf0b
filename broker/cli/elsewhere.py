"""What a command does with a remote broker, as ``broker --server URL COMMAND``.

``elsewhere`` of a :class:`~broker.feature.Command` names an object of this module, or any function of a client and the
arguments; for a group of commands, a mapping of these by command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.cli.output import Column, Format, chosen, print_json, print_table
from broker.errors import WRONG_USAGE, BrokerError

if TYPE_CHECKING:
    from gridbroker_client import BrokerClient

Arguments = Mapping[str, Any]
"""The arguments and options of a command, by the names of its function's parameters."""
Document = Mapping[str, Any]
Documents = Iterable[Document]
Serve = Callable[["BrokerClient", Arguments], None]
LARGEST_PAGE = 10_000
"""Maximum page length of the API."""
SHOWN_COLUMNS = 8


class NotRemote(BrokerError):
    """The command, or an option of it, needs the broker's own machine."""

    exit_status = WRONG_USAGE


class OtherVersion(BrokerError):
    """The remote broker answers in a form that this version does not read."""


@dataclass(frozen=True)
class RemoteAnswer:
    """A command that shows one answer.

    Attributes:
        ask: requests the answer from the API.
        model: model of the answer.
        table: prints the answer, as the command does on the broker's own machine.
        items: the field whose items ``--json`` prints one a line; None prints the whole answer.
    """

    ask: Callable[[BrokerClient, Arguments], Document]
    model: Any
    table: Callable[[Any], None]
    items: str | None = None

    def __call__(self, client: BrokerClient, given: Arguments) -> None:
        """Request the answer and print it.

        Raises:
            OtherVersion: the answer does not match the model.
        """
        from pydantic import TypeAdapter, ValidationError  # takes long to import

        document = self.ask(client, given)
        if chosen.get() is Format.JSON:
            for item in [document] if self.items is None else document[self.items]:
                print_json(item)
            return
        try:
            result = TypeAdapter(self.model).validate_python(document)
        except ValidationError as error:
            field = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise OtherVersion(
                "the broker there is of another version", f"field {field} of its answer", "give --json"
            ) from error
        self.table(result)


@dataclass(frozen=True)
class RemoteDocuments:
    """A command that shows what the API returns as it is: one document as JSON, several as a table.

    Attributes:
        ask: requests the documents from the API.
    """

    ask: Callable[[BrokerClient, Arguments], Documents]

    def __call__(self, client: BrokerClient, given: Arguments) -> None:
        """Request the documents and print them."""
        documents = list(self.ask(client, given))
        if chosen.get() is Format.JSON or len(documents) == 1:
            for document in documents:
                print_json(document)
            return
        names = list(dict.fromkeys(name for one in documents for name, value in one.items() if _is_plain(value)))
        columns = [Column(name) for name in names[:SHOWN_COLUMNS]]
        print_table(columns, [[document.get(column) for column in names[:SHOWN_COLUMNS]] for document in documents])


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)

"""What a command does with a remote broker, as ``broker --server URL COMMAND``.

``elsewhere`` of a :class:`~broker.feature.Command` names an object of this module, or any function of a client and the
arguments; for a group of commands, a mapping of these by command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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


class GivenArguments(Arguments):
    """The arguments and options of a command, by the names of its function's parameters; it notes which are read.

    Args:
        path: the command, such as ``config set``.
        values: the values of all parameters, defaults included.
        typed: how the user wrote those that are not left to their defaults, such as ``--dry-run``, by name.
    """

    def __init__(self, path: str, values: Mapping[str, Any], typed: Mapping[str, str]) -> None:
        self._path, self._values, self._unread = path, values, dict(typed)

    def __getitem__(self, name: str) -> Any:
        self._unread.pop(name, None)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def require_all_read(self) -> None:
        """Require that the remote form of the command has read what the user typed: nothing may be ignored silently.

        Raises:
            NotRemote: it has not read one of the options.
        """
        if self._unread:
            options = " and ".join(self._unread.values())
            raise NotRemote(
                f"broker {self._path} knows {options} on the broker's own machine only", "--server", f"omit {options}"
            )


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
        if chosen.get() is Format.JSON or (chosen.get() is Format.TABLE and len(documents) == 1):
            for document in documents:
                print_json(document)
            return
        names = list(dict.fromkeys(name for document in documents for name in document))
        if chosen.get() is Format.TABLE:
            names = [name for name in names if any(_is_plain(one.get(name)) for one in documents)][:SHOWN_COLUMNS]
        print_table([Column(name) for name in names], [[one.get(name) for name in names] for one in documents])


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool)

"""``broker --server URL ...``: the same commands against a remote broker, with a token.

A command parses its own arguments; its ``elsewhere`` queries the API in place of the database.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import typer

from broker.cli import output
from broker.cli.application import build_app
from broker.cli.elsewhere import GivenArguments, NotRemote, Serve
from broker.cli.failing import emit_error, print_error, wants_json
from broker.cli.output import Format
from broker.cli.rendering.options import FORMAT, JSON_OPTION
from broker.errors import WRONG_USAGE, BrokerError
from broker.feature import Command, commands
from broker.fetching.web import shown
from broker.settings import read_settings
from gridbroker_client import BrokerClient, BrokerProblem, BrokerUnreachable, NoToken, find_token, token_from_file

LOOPBACK = ("://127.0.0.1", "://localhost", "://[::1]")
WRONG_ARGUMENTS: Any = next(one for one in typer.BadParameter.__mro__ if one.__name__ == "ClickException")
"""The base class of errors for wrong arguments: Click's, or that of the copy which newer versions of Typer bundle."""


class CommandClient(BrokerClient):
    """The client of one command: it sends nothing before the command has read all that the user typed."""

    def __init__(self, server: str, token: Callable[[], str | None], given: GivenArguments) -> None:
        super().__init__(server, token)
        self._given = given

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """Send a GET request.

        Raises:
            NotRemote: an option would be ignored.
        """
        self._given.require_all_read()
        return super().get(path, **parameters)

    def send(self, method: str, path: str, *body: Any, **options: Any) -> dict[str, Any]:
        """Send a write.

        Raises:
            NotRemote: an option would be ignored.
        """
        self._given.require_all_read()
        return super().send(method, path, *body, **options)


def main(server: str, token_file: str | None, arguments: Sequence[str]) -> NoReturn:
    """Run one command against the broker at ``server`` and end the process with its exit status."""
    as_json = wants_json(arguments)
    try:
        path, given = _parsed(arguments)
        serve = serving(path)
        token = output.chosen.set(Format.JSON if as_json else Format(given.get(FORMAT, Format.TABLE)))
        try:
            with CommandClient(server, _token(server, token_file), given) as client:
                serve(client, given)
        finally:
            output.chosen.reset(token)
    except typer.Exit as ended:
        raise SystemExit(ended.exit_code) from None
    except WRONG_ARGUMENTS as error:
        if as_json:
            print_error(WRONG_USAGE, error.format_message(), "", "see --help")
        else:
            error.show()
        raise SystemExit(error.exit_code) from None
    except (BrokerProblem, BrokerUnreachable, NoToken, OSError, BrokerError) as error:
        converted = _convert_error(error, server)
        emit_error(converted, as_json)
        raise SystemExit(converted.exit_status) from None
    raise SystemExit(0)


def _convert_error(error: Exception, server: str) -> BrokerError:
    """Convert an error as if it had happened here: with its exit status, and a remedy."""
    if isinstance(error, BrokerError):
        return error
    if isinstance(error, NoToken):
        return BrokerError("its first line holds no token", str(error.file), "write the token there, or name another")
    address = shown(server)
    if not isinstance(error, BrokerProblem):
        message = str(error).replace(server, address)
        return BrokerError(message, address, "see the address, the network and the broker there")
    message = "; ".join(part for part in (error.code, error.detail) if part)
    where = f"{address}, request {error.request_id}" if error.request_id else address
    converted = BrokerError(message, where, error.remedy or "see the log of the broker there")
    converted.exit_status = error.exit_status
    return converted


def _parsed(arguments: Sequence[str]) -> tuple[str, GivenArguments]:
    """Parse the command and its arguments, as the command itself does."""
    first = next((word for word in arguments if not word.startswith("-")), None)
    command: Any = typer.main.get_command(build_app(first))
    context = command.make_context("broker", list(arguments))
    names: list[str] = []
    while hasattr(command, "resolve_command"):
        rest = [*getattr(context, "_protected_args", []), *context.args]
        name, command, rest = command.resolve_command(context, rest)
        names.append(str(name))
        context = command.make_context(name, rest, parent=context)
    path = " ".join(names)
    return path, GivenArguments(path, context.params, dict(_typed(context)))


def _typed(context: Any) -> Iterator[tuple[str, str]]:
    """Iterate over what the user typed, except how to print: the name of the parameter, and the option or argument."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name)
        is_typed = source is not None and source.name == "COMMANDLINE"
        if is_typed and parameter.name != FORMAT and JSON_OPTION not in parameter.opts:
            yield parameter.name, max(parameter.opts, key=len)  # an argument has its own name there


def _token(server: str, token_file: str | None) -> Callable[[], str | None]:
    if token_file is not None:
        return token_from_file(Path(token_file))
    own_token = read_settings().home / "api-token"
    if any(mark in server for mark in LOOPBACK) and own_token.is_file() and "BEARER_TOKEN" not in os.environ:
        return token_from_file(own_token)
    return find_token(os.environ)


def serving(path: str) -> Serve:
    """Return what serves the command ``path``, such as ``tasks`` or ``queue show``, from a remote broker.

    Raises:
        NotRemote: the command works on the broker's own machine only.
    """
    name, _, inner = path.partition(" ")
    command = next((command for command in commands() if command.name == name), None)
    served = load(command) if command is not None and command.elsewhere else None
    inner_names: list[str] = []
    if isinstance(served, Mapping):
        inner_names = [f"{name} {one}" for one in served]
        served = served.get(inner)
    if served is None:
        known = ", ".join(inner_names or [command.name for command in commands() if command.elsewhere])
        raise NotRemote(f"broker {path} works on the broker's own machine", "--server", f"elsewhere: {known}")
    return served


def load(command: Command) -> Serve | Mapping[str, Serve]:
    """Return what serves a command from a remote broker; for a group, by the names of its commands."""
    module, _, attribute = command.elsewhere.partition(":")
    return cast("Serve | Mapping[str, Serve]", getattr(importlib.import_module(module), attribute))

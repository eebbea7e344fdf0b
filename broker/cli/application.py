"""The commands as one Typer application. Only the module of the requested command is imported."""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli import commands
from broker.cli.completion import AnyFunction, with_completion, with_metavars
from broker.cli.rendering.options import with_rendering
from broker.errors import BrokerError

if TYPE_CHECKING:
    from broker.settings import Settings

NONE = ""
"""In place of a command: none is imported, only their names and help are available."""


class LazySettings:
    """The settings of this invocation, read on first use."""

    def __init__(self, database_url: str | None) -> None:
        self._database_url = database_url
        self._read: Settings | None = None

    def read(self) -> Settings:
        """The settings in force, read from file and environment."""
        if self._read is None:
            from broker.settings import read_settings

            self._read = read_settings(self._database_url)
        return self._read


def build_app(only: str | None = None, *, alone: bool = False) -> typer.Typer:
    """Build the application.

    Args:
        only: the command to import; ``NONE`` for none, None for all of them.
        alone: whether to leave out the other commands; otherwise their names and help are included.
    """
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Workload brokerage for grids of batch queues: which nucleus, which queue, and why.",
    )
    app.callback()(_global_options)
    for name, target, text in commands.COMMANDS:
        if only is None or name == only:
            _register(app, name, target, text)
        elif not alone and _is_there(target):
            app.command(name, help=text, short_help=text)(_not_imported)
    return app


def _not_imported() -> None:
    """Placeholder for a command that is not needed now."""


def _is_there(target: str) -> bool:
    try:
        return importlib.util.find_spec(target.split(":")[0]) is not None
    except ModuleNotFoundError:
        return False


def _register(app: typer.Typer, name: str, target: str, text: str) -> None:
    module, attribute = target.split(":")
    try:
        target_object = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name == module:
            return
        target_object = _unavailable(name, error.name)
    if isinstance(target_object, typer.Typer):
        app.add_typer(_equipped_group(target_object, name), name=name, help=text, short_help=text)
    else:
        app.command(name, help=text, short_help=text)(_equipped(target_object, name))


def _unavailable(name: str, package: str | None) -> Callable[[], None]:
    def unavailable() -> None:
        raise BrokerError(f"the package {package} is not installed", f"command {name}", f"pip install {package}")

    return unavailable


def _equipped_group(group: typer.Typer, path: str) -> typer.Typer:
    """Return the group with the options that every command has."""
    copied = copy.copy(group)
    copied.registered_commands = [copy.copy(command) for command in group.registered_commands]
    for command in copied.registered_commands:
        function: AnyFunction | None = command.callback
        if function is not None:
            name = command.name or function.__name__.replace("_", "-")
            command.name, command.callback = name, _equipped(function, f"{path} {name}")
    copied.registered_groups = [copy.copy(subgroup) for subgroup in group.registered_groups]
    for inner in copied.registered_groups:
        if inner.typer_instance is not None:
            inner.typer_instance = _equipped_group(inner.typer_instance, f"{path} {inner.name}")
    return copied


def _equipped(function: AnyFunction, path: str) -> AnyFunction:
    return with_completion(with_metavars(with_rendering(function, path in commands.WATCHED)))


def _show_version(show: bool) -> None:
    if show:
        from broker import __version__

        typer.echo(f"gridbroker {__version__}")
        raise typer.Exit


def _global_options(
    context: typer.Context,
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            metavar="URL",
            help="Address of the database, else BROKER_DATABASE_URL, else the embedded one; PGPASSWORD its password.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    context.obj = LazySettings(db)


def click_command(only: str | None) -> Any:
    """Return the application as the Click command that Typer makes of it.

    Typer spends some milliseconds on a signature; for the placeholder of commands that are not needed it does so once.
    """
    root: Any = typer.main.get_command(build_app(only, alone=True))
    wanted, all_commands = root.commands, {}
    for name, target, text in commands.COMMANDS:
        if name in wanted:
            all_commands[name] = wanted[name]
        elif name != only and _is_there(target):
            all_commands[name] = copy.copy(_stand_in())
            all_commands[name].name, all_commands[name].help, all_commands[name].short_help = name, text, text
    root.commands = all_commands
    return root


@functools.cache
def _stand_in() -> Any:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(help="not imported")(_not_imported)
    return typer.main.get_command(app)

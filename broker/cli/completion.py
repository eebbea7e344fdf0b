"""Shell completion: commands and options by Typer, and the names of agents, brokerages, keys, rules and queues.

A shell asks on every Tab, so nothing here starts a server, and values that are slow to get are not offered.
:func:`with_annotations` and :func:`with_metavars` wrap commands to change their parameters, for completion and for
options common to all commands.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

AnyFunction = Callable[..., Any]

_WORDS = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH"}


def with_annotations(
    function: AnyFunction, changed: Mapping[str, Any], added: Mapping[str, tuple[Any, Any]] | None = None
) -> Callable[[AnyFunction], AnyFunction]:
    """Return a decorator that makes another function look like ``function`` to Typer.

    Args:
        function: a command.
        changed: annotations by parameter that replace its own.
        added: annotation and default of additional parameters, by name.
    """
    more = added or {}
    signature = inspect.signature(function, eval_str=True)
    parameters = [
        parameter.replace(annotation=changed.get(parameter.name, parameter.annotation))
        for parameter in signature.parameters.values()
    ]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in more.items()
    ]
    hints = {**get_type_hints(function, include_extras=True), **changed}

    def look_alike(wrapper: AnyFunction) -> AnyFunction:
        result = functools.wraps(function)(wrapper)
        result.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        result.__annotations__ = {**hints, **{name: annotation for name, (annotation, _) in more.items()}}
        return result

    return look_alike


def with_metavars(function: AnyFunction) -> AnyFunction:
    """Return ``function`` with the same metavars for its arguments and options under every version of Typer."""
    changed: dict[str, Any] = {}
    for name, hint in get_type_hints(function, include_extras=True).items():
        about = [copy(metadata) for metadata in getattr(hint, "__metadata__", ())]
        for metadata in about:
            if isinstance(metadata, ArgumentInfo | OptionInfo) and metadata.metavar is None:
                metadata.metavar = (
                    name.upper() if isinstance(metadata, ArgumentInfo) else _word(_plain_type(hint.__origin__))
                )
                changed[name] = Annotated[(hint.__origin__, *about)]
    if not changed:
        return function

    def command(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return with_annotations(function, changed)(command)


def _word(kind: Any) -> str | None:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(member.value) for member in kind)
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return _WORDS.get(kind)


def _plain_type(hint: Any) -> Any:
    """Return the type without its wrapping, such as ``int`` for ``list[int] | None``."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [argument for argument in get_args(hint) if argument is not NoneType][:1]
    return get_args(hint)[0] if get_origin(hint) in (list, tuple) else hint


VARIABLE = "_BROKER_COMPLETE"
WORDS = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
PATIENCE_S = 1


def completing() -> bool:
    """Return whether a shell requests completions instead of running a command."""
    return VARIABLE in os.environ


def words_to_complete() -> list[str]:
    """Return the words typed after ``broker``."""
    line = next((os.environ[name] for name in WORDS if os.environ.get(name)), "")
    return line.split()[1:]


def get_ready() -> None:
    """Register the three shells with Click, as Typer does."""
    from typer._completion_classes import completion_init

    completion_init()


def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="The shell that is to complete.")],
) -> None:
    """Print the completion script of a shell; for bash: eval "$(broker completion bash)"."""
    from typer._completion_shared import get_completion_script

    from broker.errors import WRONG_USAGE, BrokerError

    if shell not in ("bash", "zsh", "fish"):
        error = BrokerError(f"no completion for {shell[:40]}", "broker completion", "known are bash, zsh, fish")
        error.exit_status = WRONG_USAGE
        raise error
    typer.echo(get_completion_script(prog_name="broker", complete_var=VARIABLE, shell=shell))


def with_completion(function: AnyFunction) -> AnyFunction:
    """Return ``function`` with parameters that complete by their names, unchanged if no completion is requested."""
    if not completing():
        return function
    hints = get_type_hints(function, include_extras=True)
    completed = {name: _with_completer(hint, COMPLETERS[name]) for name, hint in hints.items() if name in COMPLETERS}

    @with_annotations(function, completed)
    def command(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return command


def _with_completer(hint: Any, names: Callable[[], Iterable[str]]) -> Any:
    about = [copy(metadata) for metadata in getattr(hint, "__metadata__", ())]
    for metadata in about:
        if isinstance(metadata, ParameterInfo) and metadata.autocompletion is None and metadata.shell_complete is None:
            metadata.autocompletion = _completer(names)
    return Annotated[(hint.__origin__, *about)] if about else hint


def _completer(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    def offer(incomplete: str) -> list[str]:
        try:
            candidates = list(names())
        except Exception:  # completion in a shell is no place for an error
            return []
        folded = incomplete.casefold()
        return sorted(candidate for candidate in candidates if candidate.casefold().startswith(folded))

    return offer


def _agents() -> Sequence[str]:
    from agents.service.names import NAMES

    return NAMES


def _brokerages() -> Iterable[str]:
    from broker.brokerages.offered import offered

    return offered()


def _keys() -> Iterable[str]:
    from broker import resources
    from broker.yaml_text import read_yaml

    text = resources.path("config/gdpconfig.yaml").read_text(encoding="utf-8")
    return [str(entry["key"]) for entry in read_yaml(text)["keys"]]


def _keys_to_set() -> Iterable[str]:
    return [f"{key}=" for key in _keys()]


def _rules() -> Iterable[str]:
    from broker.decisions.answers.rules_in_force import brokerages_in_force, chain_of

    chains = [chain_of(brokerage, None) for brokerage in brokerages_in_force()]
    return {word for chain in chains for rule in chain for word in (rule.name, rule.code)}


def _rule_switches() -> Iterable[str]:
    return [f"{rule}={state}" for rule in _rules() for state in ("on", "off")]


def _queues() -> Iterable[str]:
    url = os.environ.get("BROKER_DATABASE_URL") or _running_server()
    if not url:
        return ()
    import psycopg

    from broker.password_file import VARIABLE, with_password

    plain = with_password(url.replace("postgresql+psycopg://", "postgresql://", 1), os.environ.get(VARIABLE))
    with psycopg.connect(plain, connect_timeout=PATIENCE_S, options="-c statement_timeout=1000") as connection:
        schema = os.environ.get("BROKER_PANDA_SCHEMA") or _panda_schema(connection)
        query = psycopg.sql.SQL("SELECT panda_queue FROM {}.schedconfig_json").format(psycopg.sql.Identifier(schema))
        return [str(row[0]) for row in connection.execute(query)]


def _panda_schema(connection: Any) -> str:
    row = connection.execute(
        "SELECT schemaname FROM pg_tables WHERE tablename = 'schedconfig_json' ORDER BY 1 LIMIT 1"
    ).fetchone()
    return str(row[0])


def _running_server() -> str | None:
    from broker.store.connection.embedded import EmbeddedServer

    home = os.environ.get("BROKER_HOME")
    if not home:
        import platformdirs

        home = platformdirs.user_data_dir("gridbroker", appauthor=False)
    server = EmbeddedServer(Path(home))
    return server.url() if server.is_initialised and server.running else None


COMPLETERS: dict[str, Callable[[], Iterable[str]]] = {
    "agent": _agents,
    "brokerage": _brokerages,
    "key": _keys,
    "queue": _queues,
    "ranges": _keys_to_set,
    "rule": _rule_switches,
    "values": _keys_to_set,
}
"""Completion of a parameter, by its name in the command's function."""

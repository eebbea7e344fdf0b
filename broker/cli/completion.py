"""Shell completion: commands and options by Typer, and the names of agents, brokerages, keys, rules and queues.

A shell asks with every Tab, so nothing here starts a server, and whatever cannot be had quickly is not offered.

Commands with other parameters than their functions were written with: options that all have, names that complete.
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
    """Makes another function look like ``function`` to Typer.

    Args:
        function: a command.
        changed: annotations by parameter, instead of its own.
        added: annotation and default of more parameters, by name.
    """
    more = added or {}
    signature = inspect.signature(function, eval_str=True)
    parameters = [
        one.replace(annotation=changed.get(one.name, one.annotation)) for one in signature.parameters.values()
    ]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in more.items()
    ]
    hints = {**get_type_hints(function, include_extras=True), **changed}

    def look_alike(other: AnyFunction) -> AnyFunction:
        made = functools.wraps(function)(other)
        made.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        made.__annotations__ = {**hints, **{name: annotation for name, (annotation, _) in more.items()}}
        return made

    return look_alike


def with_metavars(function: AnyFunction) -> AnyFunction:
    """``function`` whose arguments and options say what they take in the same words under every version of Typer."""
    changed: dict[str, Any] = {}
    for name, hint in get_type_hints(function, include_extras=True).items():
        about = [copy(one) for one in getattr(hint, "__metadata__", ())]
        for one in about:
            if isinstance(one, ArgumentInfo | OptionInfo) and one.metavar is None:
                one.metavar = name.upper() if isinstance(one, ArgumentInfo) else _word(_plain_type(hint.__origin__))
                changed[name] = Annotated[(hint.__origin__, *about)]
    if not changed:
        return function

    def command(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return with_annotations(function, changed)(command)


def _word(kind: Any) -> str | None:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(one.value) for one in kind)
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return _WORDS.get(kind)


def _plain_type(hint: Any) -> Any:
    """``int`` of ``list[int] | None``."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [one for one in get_args(hint) if one is not NoneType][:1]
    return get_args(hint)[0] if get_origin(hint) in (list, tuple) else hint


VARIABLE = "_BROKER_COMPLETE"
WORDS = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
PATIENCE_S = 1


def completing() -> bool:
    """Whether a shell asks for completions instead of running a command."""
    return VARIABLE in os.environ


def words_to_complete() -> list[str]:
    """What has been typed behind ``broker``."""
    line = next((os.environ[name] for name in WORDS if os.environ.get(name)), "")
    return line.split()[1:]


def get_ready() -> None:
    """Teach Click the three shells, as Typer does it."""
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
    """``function`` whose parameters complete by their names; as it is when nothing is to be completed."""
    if not completing():
        return function
    hints = get_type_hints(function, include_extras=True)
    completed = {name: _completed(hint, COMPLETERS[name]) for name, hint in hints.items() if name in COMPLETERS}

    @with_annotations(function, completed)
    def command(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return command


def _completed(hint: Any, names: Callable[[], Iterable[str]]) -> Any:
    about = [copy(one) for one in getattr(hint, "__metadata__", ())]
    for one in about:
        if isinstance(one, ParameterInfo) and one.autocompletion is None and one.shell_complete is None:
            one.autocompletion = _offering(names)
    return Annotated[(hint.__origin__, *about)] if about else hint


def _offering(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    def offer(incomplete: str) -> list[str]:
        try:
            found = list(names())
        except Exception:  # a shell that completes is no place for an error
            return []
        folded = incomplete.casefold()
        return sorted(one for one in found if one.casefold().startswith(folded))

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
    return [str(one["key"]) for one in read_yaml(text)["keys"]]


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
    return server.url() if server.is_made and server.running else None


COMPLETERS: dict[str, Callable[[], Iterable[str]]] = {
    "agent": _agents,
    "brokerage": _brokerages,
    "key": _keys,
    "queue": _queues,
    "ranges": _keys_to_set,
    "rule": _rule_switches,
    "values": _keys_to_set,
}
"""What completes a parameter, by its name in the command's function."""

"""Commands with other parameters than their functions were written with: options that all have, names that complete."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from copy import copy
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

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
    return _WORDS.get(kind)


def _plain_type(hint: Any) -> Any:
    """``int`` of ``list[int] | None``."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [one for one in get_args(hint) if one is not NoneType][:1]
    return get_args(hint)[0] if get_origin(hint) in (list, tuple) else hint

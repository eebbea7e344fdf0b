"""Who makes a change."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from broker.errors import WRONG_USAGE, BrokerError

Editor = Annotated[str | None, typer.Option("--editor", help="Who makes the change [the login name].")]


class NoEditorError(BrokerError):
    """It is not known who makes the change."""

    exit_status = WRONG_USAGE


def editor_name(given: str | None) -> str:
    """The name given, else the login name.

    Raises:
        NoEditorError: there is neither.
    """
    if given is not None:
        return given
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError) as error:
        raise NoEditorError("the login name is not known", "", "say who makes the change with --editor") from error

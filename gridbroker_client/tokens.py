"""Where a token comes from. Source: WLCG bearer token discovery 1.0."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

Token = Callable[[], str | None]
"""Returns the token whenever it is needed: a file may have been renewed since."""


class NoToken(ValueError):
    """The first line of a file holds no token.

    Attributes:
        file: the file.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        super().__init__(f"{file}: its first line holds no token")


def token_from_file(file: str | Path) -> Token:
    """Return the token in the first line of a file, read at each use.

    What is returned raises :class:`NoToken` if that line is empty.
    """
    return lambda: _first_line(Path(file))


def find_token(variables: Mapping[str, str], account: int | None = None) -> Token:
    """Return the token that the environment names.

    Args:
        variables: ``BEARER_TOKEN``, else the file ``BEARER_TOKEN_FILE``, else ``bt_u<account>`` in ``XDG_RUNTIME_DIR``
            or the folder for temporary files.
        account: number of the account; by default that of the process.
    """
    name = f"bt_u{os.getuid() if account is None else account}"

    def find() -> str | None:
        if variables.get("BEARER_TOKEN", "").strip():
            return variables["BEARER_TOKEN"].strip()
        if variables.get("BEARER_TOKEN_FILE"):
            return _first_line(Path(variables["BEARER_TOKEN_FILE"]))
        runtime = variables.get("XDG_RUNTIME_DIR")
        for folder in ([Path(runtime)] if runtime else []) + [Path(os.path.sep) / "tmp"]:
            if (folder / name).is_file():
                return _first_line(folder / name)
        return None

    return find


def _first_line(file: Path) -> str:
    """The token in the first line of a file.

    Raises:
        NoToken: the line is empty.
    """
    token = file.read_text(encoding="ascii").partition("\n")[0].strip()
    if not token:
        raise NoToken(file)
    return token

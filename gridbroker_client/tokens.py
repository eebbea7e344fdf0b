"""Where a token comes from. Source: WLCG bearer token discovery 1.0."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

Token = Callable[[], str | None]
"""Returns the token whenever it is needed: a file may have been renewed since."""


def token_from_file(file: str | Path) -> Token:
    """Return the token in the first line of a file, read at each use."""

    def read() -> str:
        return Path(file).read_text(encoding="ascii").strip()

    return read


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
            return Path(variables["BEARER_TOKEN_FILE"]).read_text(encoding="ascii").strip()
        runtime = variables.get("XDG_RUNTIME_DIR")
        for folder in ([Path(runtime)] if runtime else []) + [Path(os.path.sep) / "tmp"]:
            if (folder / name).is_file():
                return (folder / name).read_text(encoding="ascii").strip()
        return None

    return find

"""The token of one machine: a file that only its owner can read, made at the first start (as Jupyter does).

It counts where no issuer is configured, and gives every role to whoever can read the file.
"""

from __future__ import annotations

import getpass
import hmac
import os
import secrets
import stat
from pathlib import Path

from broker.access.roles import LOCAL, Grant, Identity, Role
from broker.errors import Refused

FILE_NAME = "api-token"
_BYTES = 32
_SHORTEST = 20


class TokenFileRefused(Refused):
    """The file can be read by others, or holds no token."""


def token_file(home: Path) -> Path:
    """Where the token of the broker in ``home`` is."""
    return home / FILE_NAME


def read_or_make(home: Path) -> str:
    """The token in the file; a new one where there is no file.

    Raises:
        TokenFileRefused: others can read the file, or it holds no token.
    """
    file = token_file(home)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return read(home)
    with os.fdopen(handle, "w", encoding="ascii") as opened:
        opened.write(secrets.token_urlsafe(_BYTES) + "\n")
    return read(home)


def read(home: Path) -> str:
    """The token in the file of ``home``.

    Raises:
        TokenFileRefused: others can read the file, it is a link, is missing, or holds no token.
    """
    file = token_file(home)
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise TokenFileRefused(f"cannot read it: {error.strerror}", str(file), "see who owns it") from error
    with os.fdopen(handle, encoding="ascii", errors="replace") as opened:
        mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
        if mode & 0o077:
            raise TokenFileRefused(
                f"others can read it (mode {mode:o})", str(file), "remove it, and a new one is made at the next start"
            )
        token = opened.read(1024).strip()
    if len(token) < _SHORTEST or not token.isascii():
        raise TokenFileRefused("it holds no token", str(file), "remove it, and a new one is made at the next start")
    return token


class LocalToken:
    """Knows the token of this machine.

    Attributes:
        identity: whoever shows it.
    """

    def __init__(self, token: str) -> None:
        """``token``: the text of the file."""
        self._token = token.encode()
        self.identity = Identity(_account(), LOCAL, {role: Grant(role) for role in Role})

    def identify(self, token: str) -> Identity | None:
        """Who shows ``token``; None for another one. It takes as long whatever the two have in common."""
        return self.identity if hmac.compare_digest(self._token, token.encode("utf-8", "replace")) else None


def _account() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}"

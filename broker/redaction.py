"""Passwords in addresses of databases, hidden before a text is shown.

It needs only the standard library, because every command uses it, even to print its help.
"""

from __future__ import annotations

import re

HIDDEN = "***"

SECRET_SETTINGS = ("oauth_client_secret", "password", "scram_client_key", "scram_server_key", "sslpassword")
"""Settings of libpq that are secret wherever they stand (PostgreSQL documentation, 32.1.2)."""

# The end of a password that holds an @ is ambiguous, so all that follows it is hidden up to a space or a quote.
_WITH_PASSWORD = re.compile(r"(postgres(?:ql)?(?:\+\w+)?://[^:/@?\s'\"]*):[^\s'\"]*@[^\s'\"]*", re.IGNORECASE)
_SETTING = re.compile(rf"\b({'|'.join(SECRET_SETTINGS)})(\s*=\s*)('[^']*'|[^&\s'\"]+)", re.IGNORECASE)


def redact(text: str) -> str:
    """``text`` without the passwords of addresses in it."""
    if "@" in text:
        text = _WITH_PASSWORD.sub(rf"\1:{HIDDEN}", text)
    return _SETTING.sub(rf"\1\2{HIDDEN}", text) if "=" in text else text

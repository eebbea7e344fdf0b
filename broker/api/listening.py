"""Where the API listens: on this machine, or beyond it with a certificate or behind a proxy."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from broker.errors import Refused

LOOPBACK = "127.0.0.1"


class NotSafe(Refused):
    """It would listen beyond this machine without protection."""


@dataclass(frozen=True)
class Listening:
    """Where to listen, and how.

    Attributes:
        host: address or name of an interface.
        port: 0 for any that is free.
        certificate: PEM file; None without TLS.
        key: PEM file of the certificate's key.
        behind_proxy: a proxy in front of it does TLS.
    """

    host: str = LOOPBACK
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False

    @property
    def scheme(self) -> str:
        """Of the addresses that clients use."""
        return "http" if self.certificate is None else "https"


def is_loopback(host: str) -> bool:
    """Whether nobody outside this machine reaches ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check(listening: Listening) -> Listening:
    """``listening`` as it is, where it is safe.

    Raises:
        NotSafe: it is beyond this machine without TLS, or a file of the certificate is missing.
    """
    where = f"--host {listening.host}"
    if (listening.certificate is None) != (listening.key is None):
        raise NotSafe("a certificate needs its key, and a key its certificate", where, "give --certificate and --key")
    for file in (listening.certificate, listening.key):
        if file is not None and not file.is_file():
            raise NotSafe("there is no such file", str(file), "correct the path")
    if is_loopback(listening.host) or listening.certificate is not None or listening.behind_proxy:
        return listening
    raise NotSafe(
        "tokens would cross the network in the clear",
        where,
        "give --certificate and --key, or --behind-proxy where a proxy does TLS, or listen on 127.0.0.1",
    )

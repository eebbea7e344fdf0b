"""The server of the application: uvicorn in a thread, started and stopped from outside.

It listens on this machine, or beyond it with a certificate or behind a proxy.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from broker.api.configuration import LimitSection
from broker.api.head_timeout import HEAD_BYTES, HeadTimeoutH11
from broker.errors import BrokerError, Refused

LOOPBACK = "127.0.0.1"


class NotSafe(Refused):
    """The service would listen beyond this machine without protection."""


@dataclass(frozen=True)
class ListenOptions:
    """Where and how to listen.

    Attributes:
        host: address, or name of an interface.
        port: port number; 0 for any free one.
        certificate: PEM file; None without TLS.
        key: PEM file of the certificate's key.
        behind_proxy: whether a proxy in front handles TLS.
        shared: whether other processes of this user also listen there; the system divides the connections among them.
    """

    host: str = LOOPBACK
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    shared: bool = False

    @property
    def scheme(self) -> str:
        """Scheme of the addresses that clients use."""
        return "http" if self.certificate is None else "https"


def is_loopback(host: str) -> bool:
    """Return whether ``host`` can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check(listening: ListenOptions) -> ListenOptions:
    """Return ``listening`` unchanged if it is safe.

    Raises:
        NotSafe: it listens beyond this machine without TLS, or a certificate file is missing.
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


def protocol(head_within_s: float) -> type[asyncio.Protocol]:
    """Return an HTTP/1.1 protocol with a deadline of ``head_within_s`` seconds for the head of each request."""
    base: type[asyncio.Protocol] = HeadTimeoutH11
    if find_spec("httptools") is not None:
        from broker.api.http_httptools import HeadTimeoutHttpTools

        base = HeadTimeoutHttpTools
    return type(base.__name__, (base,), {"head_within_s": head_within_s})


_log = logging.getLogger(__name__)
STOP_WITHIN_S = 5
START_WITHIN_S = 60.0
BACKLOG = 1024


class NotListening(BrokerError):
    """The address cannot be used, or the application did not start."""


class ApiServer:
    """Serves one application, ``app``.

    Args:
        app: the application.
        listening: where to listen; checked already.
        limits: limits of connections.
        front: answers some requests itself and passes the rest to ``app``; None: the application answers all.

    Raises:
        NotListening: the address is in use, or does not belong to this machine.
        Refused: the certificate cannot be used.
    """

    def __init__(
        self, app: FastAPI, listening: ListenOptions, limits: LimitSection, front: ASGIApp | None = None
    ) -> None:
        self.app = app
        self._listening = listening
        config = uvicorn.Config(
            app if front is None else front,
            http=protocol(limits.header_within_s),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=listening.behind_proxy,
            timeout_keep_alive=int(limits.idle_s),
            timeout_graceful_shutdown=STOP_WITHIN_S,
            limit_concurrency=limits.connections,
            h11_max_incomplete_event_size=HEAD_BYTES,
            ssl_certfile=listening.certificate,
            ssl_keyfile=listening.key,
        )
        _load(config, listening.certificate)
        self._server = uvicorn.Server(config)
        self._socket = bound(listening)
        self._thread = threading.Thread(target=self._run, name="broker api", daemon=True)

    @property
    def url(self) -> str:
        """The address of the application."""
        host = self._listening.host
        address = f"[{host}]" if ":" in host else host
        return f"{self._listening.scheme}://{address}:{self._socket.getsockname()[1]}"

    @property
    def alive(self) -> bool:
        """Whether the thread that serves requests still runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start serving in a separate thread.

        Raises:
            NotListening: the server ended during its start.
        """
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)
            if not self._thread.is_alive():
                raise NotListening("the application did not start", self.url, "see the log")
        _log.info("api listens", extra={"fields": {"url": self.url}})

    def stop(self) -> bool:
        """Answer pending requests, then stop; return False if that took too long."""
        self.app.state.api.ending.set()
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(STOP_WITHIN_S * 2)
        self._socket.close()
        return not self._thread.is_alive()

    def __enter__(self) -> ApiServer:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def _load(config: uvicorn.Config, certificate: Path | None) -> None:
    try:
        config.load()
    except (ssl.SSLError, OSError) as error:
        raise Refused(f"the certificate cannot be used: {error}", str(certificate), "see the two files") from error


def bound(listening: ListenOptions, *, listens: bool = True) -> socket.socket:
    """Return a socket bound to the address; if it does not listen, it only reserves the port.

    Raises:
        NotListening: the address is not available.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listening.host, listening.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound_socket = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _not_listening(listening, error) from error
    try:
        bound_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listening.shared:
            bound_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound_socket.bind(address)
        if listens:
            bound_socket.listen(BACKLOG)
    except OSError as error:
        bound_socket.close()
        raise _not_listening(listening, error) from error
    return bound_socket


def _not_listening(listening: ListenOptions, error: OSError) -> NotListening:
    where = f"{listening.host}, port {listening.port}"
    return NotListening(f"cannot listen: {error.strerror or error}", where, "choose another with --host and --port")

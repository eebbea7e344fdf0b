"""A message broker on this machine that speaks STOMP 1.2, with or without TLS, log-in and faults."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_ESCAPED = {"\\c": ":", "\\n": "\n", "\\r": "\r", "\\\\": "\\"}


@dataclass
class StompServer:
    """A server that is running.

    Attributes:
        sent: headers and body of each message, in order.
        connected: headers of each CONNECT.
        faults: what it does to the next messages instead of giving a receipt: ``cut``, ``silent``, ``error``,
            ``malformed``.
        users: who may log in, with their passwords; empty: everybody.
        answers_goodbyes: whether it gives a receipt for DISCONNECT, or waits.
    """

    port: int = 0
    sent: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    connected: list[dict[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    users: dict[str, str] = field(default_factory=dict)
    answers_goodbyes: bool = True
    ending: threading.Event = field(default_factory=threading.Event)


def _unescaped(text: str) -> str:
    parts = iter(text.split("\\"))
    found = next(parts)
    for part in parts:
        found += _ESCAPED.get("\\" + part[:1], "?") + part[1:] if part else "\\"
    return found


def frame_of(stream: Any) -> tuple[str, dict[str, str], bytes] | None:
    """The next frame, as the specification has it; None at the end."""
    command = b""
    while command in (b"", b"\n", b"\r\n"):  # heart-beats between frames
        command = stream.readline()
        if not command:
            return None
    headers: dict[str, str] = {}
    while (line := stream.readline().rstrip(b"\r\n")) != b"":
        name, _, value = line.decode().partition(":")
        # in frames of the handshake nothing is escaped
        plain = command.strip() in (b"CONNECT", b"STOMP")
        headers.setdefault(*((name, value) if plain else (_unescaped(name), _unescaped(value))))
    body = b""
    if "content-length" in headers:
        body = stream.read(int(headers["content-length"]))
        assert stream.read(1) == b"\0"
    else:
        while (one := stream.read(1)) not in (b"\0", b""):
            body += one
    return command.decode().strip(), headers, body


@contextmanager
def stomp_server(tls: ssl.SSLContext | None = None, port: int = 0, **users: str) -> Iterator[StompServer]:
    """Run a server until the block ends."""
    found = StompServer(users=users)

    class Handler(socketserver.StreamRequestHandler):
        def say(self, text: str) -> None:
            self.wfile.write(text.encode() + b"\0\n")
            self.wfile.flush()

        def handle(self) -> None:
            while (frame := frame_of(self.rfile)) is not None:
                command, headers, body = frame
                if command in ("CONNECT", "STOMP"):
                    found.connected.append(headers)
                    if found.users and found.users.get(headers.get("login", "")) != headers.get("passcode"):
                        return self.say("ERROR\nmessage:access refused\n\n")
                    self.say("CONNECTED\nversion:1.2\nheart-beat:0,0\n\n")
                elif command == "SEND":
                    fault = found.faults.pop(0) if found.faults else ""
                    found.sent.append((headers, body))
                    if fault == "cut":
                        return None
                    if fault == "silent":
                        found.ending.wait()
                        return None
                    if fault == "error":
                        return self.say("ERROR\nmessage:no such destination\n\n")
                    if fault == "malformed":
                        self.wfile.write(b"RECEIPT receipt-id\xff\xfe no colon\n\n\0")
                        self.wfile.flush()
                        return None
                    self.say(f"RECEIPT\nreceipt-id:{headers['receipt']}\n\n")
                elif command == "DISCONNECT" and found.answers_goodbyes:
                    return self.say(f"RECEIPT\nreceipt-id:{headers.get('receipt', '')}\n\n")
            return None

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = False

        def get_request(self) -> Any:
            connection, address = super().get_request()
            return (connection if tls is None else tls.wrap_socket(connection, server_side=True)), address

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that went away is no matter here."""

    server = Server(("127.0.0.1", port), Handler)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        found.ending.set()
        server.shutdown()
        thread.join()
        server.server_close()

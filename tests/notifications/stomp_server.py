"""A local STOMP 1.2 message broker, with or without TLS, login and faults."""

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
    """A running server.

    Attributes:
        sent: headers and body of each message, in order.
        connected: headers of each CONNECT.
        faults: reactions to the next messages instead of a receipt: ``cut``, ``silent``, ``error``,
            ``malformed``.
        users: accounts with their passwords; empty if no login is needed.
        answers_goodbyes: whether DISCONNECT gets a receipt; otherwise the server waits.
    """

    port: int = 0
    sent: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    connected: list[dict[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    users: dict[str, str] = field(default_factory=dict)
    answers_goodbyes: bool = True
    ending: threading.Event = field(default_factory=threading.Event)


def _unescape(text: str) -> str:
    parts = iter(text.split("\\"))
    text_so_far = next(parts)
    for part in parts:
        text_so_far += _ESCAPED.get("\\" + part[:1], "?") + part[1:] if part else "\\"
    return text_so_far


def frame_of(stream: Any) -> tuple[str, dict[str, str], bytes] | None:
    """The next frame by the specification; None at the end."""
    command = b""
    while command in (b"", b"\n", b"\r\n"):  # heart-beats between frames
        command = stream.readline()
        if not command:
            return None
    headers: dict[str, str] = {}
    while (line := stream.readline().rstrip(b"\r\n")) != b"":
        name, _, value = line.decode().partition(":")
        # frames of the handshake are not escaped
        is_handshake = command.strip() in (b"CONNECT", b"STOMP")
        headers.setdefault(*((name, value) if is_handshake else (_unescape(name), _unescape(value))))
    body = b""
    if "content-length" in headers:
        body = stream.read(int(headers["content-length"]))
        assert stream.read(1) == b"\0"
    else:
        while (byte := stream.read(1)) not in (b"\0", b""):
            body += byte
    return command.decode().strip(), headers, body


@contextmanager
def stomp_server(tls: ssl.SSLContext | None = None, port: int = 0, **users: str) -> Iterator[StompServer]:
    """Run a server until the block ends."""
    stomp = StompServer(users=users)

    class Handler(socketserver.StreamRequestHandler):
        def say(self, text: str) -> None:
            self.wfile.write(text.encode() + b"\0\n")
            self.wfile.flush()

        def handle(self) -> None:
            while (frame := frame_of(self.rfile)) is not None:
                command, headers, body = frame
                if command in ("CONNECT", "STOMP"):
                    stomp.connected.append(headers)
                    if stomp.users and stomp.users.get(headers.get("login", "")) != headers.get("passcode"):
                        return self.say("ERROR\nmessage:access refused\n\n")
                    self.say("CONNECTED\nversion:1.2\nheart-beat:0,0\n\n")
                elif command == "SEND":
                    fault = stomp.faults.pop(0) if stomp.faults else ""
                    stomp.sent.append((headers, body))
                    if fault == "cut":
                        return None
                    if fault == "silent":
                        stomp.ending.wait()
                        return None
                    if fault == "error":
                        return self.say("ERROR\nmessage:no such destination\n\n")
                    if fault == "malformed":
                        self.wfile.write(b"RECEIPT receipt-id\xff\xfe no colon\n\n\0")
                        self.wfile.flush()
                        return None
                    self.say(f"RECEIPT\nreceipt-id:{headers['receipt']}\n\n")
                elif command == "DISCONNECT" and stomp.answers_goodbyes:
                    return self.say(f"RECEIPT\nreceipt-id:{headers.get('receipt', '')}\n\n")
            return None

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = False

        def get_request(self) -> Any:
            connection, address = super().get_request()
            return (connection if tls is None else tls.wrap_socket(connection, server_side=True)), address

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignore clients that went away."""

    server = Server(("127.0.0.1", port), Handler)
    stomp.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stomp
    finally:
        stomp.ending.set()
        server.shutdown()
        thread.join()
        server.server_close()

"""A local mail server (aiosmtpd), with or without TLS, login and faults."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


@dataclass
class MailServer:
    """A running server.

    Attributes:
        mails: received mails, each with its recipients.
        refuses: answers to the next mails, which are refused.
        encrypted: for each mail, whether it arrived encrypted.
        users: accounts with their passwords; empty if no login is needed.
    """

    port: int = 0
    mails: list[tuple[Message, tuple[str, ...]]] = field(default_factory=list)
    refuses: list[str] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    users: dict[str, str] = field(default_factory=dict)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd
        if self.refuses:
            return self.refuses.pop(0)
        assert isinstance(envelope.content, bytes)
        self.mails.append((message_from_bytes(envelope.content), tuple(envelope.rcpt_tos)))
        self.encrypted.append(session.ssl is not None)
        return "250 taken"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        success = isinstance(data, LoginPassword) and self.users.get(data.login.decode()) == data.password.decode()
        return AuthResult(success=success, handled=False)


@contextmanager
def mail_server(tls: ssl.SSLContext | None = None, **users: str) -> Iterator[MailServer]:
    """Run a server until the block ends; with ``tls`` it takes mail only after STARTTLS."""
    server, loop, connections = MailServer(users=users), asyncio.new_event_loop(), list[SMTP]()
    login: dict[str, Any] = {"authenticator": server.authenticate, "auth_required": True} if users else {}

    def connection() -> SMTP:
        smtp = SMTP(server, hostname="mail.test", tls_context=tls, require_starttls=tls is not None, loop=loop, **login)
        connections.append(smtp)
        return smtp

    listening = loop.run_until_complete(loop.create_server(connection, "127.0.0.1", 0))
    server.port = listening.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        listening.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.run_until_complete(_close(connections))
        loop.close()


async def _close(connections: list[SMTP]) -> None:
    """Close the transports of all connections, also below TLS, while the loop exists."""
    for connection in connections:
        for transport in (connection.transport, connection._original_transport):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
    for _ in range(10):
        await asyncio.sleep(0)

"""A mail server on this machine (aiosmtpd), with or without TLS, log-in and faults."""

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
    """A server that is running.

    Attributes:
        mails: that came, with those to whom each goes.
        refuses: what it answers to a mail instead of taking it.
        encrypted: for each mail whether it came encrypted.
        users: who may log in, with their passwords; empty: nobody needs to.
    """

    port: int = 0
    mails: list[tuple[Message, tuple[str, ...]]] = field(default_factory=list)
    refuses: list[str] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    users: dict[str, str] = field(default_factory=dict)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - its name
        if self.refuses:
            return self.refuses.pop(0)
        assert isinstance(envelope.content, bytes)
        self.mails.append((message_from_bytes(envelope.content), tuple(envelope.rcpt_tos)))
        self.encrypted.append(session.ssl is not None)
        return "250 taken"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        good = isinstance(data, LoginPassword) and self.users.get(data.login.decode()) == data.password.decode()
        return AuthResult(success=good, handled=False)


@contextmanager
def mail_server(tls: ssl.SSLContext | None = None, **users: str) -> Iterator[MailServer]:
    """Run a server until the block ends; with ``tls`` it takes mail only after STARTTLS."""
    server, loop, connections = MailServer(users=users), asyncio.new_event_loop(), list[SMTP]()
    login: dict[str, Any] = {"authenticator": server.authenticate, "auth_required": True} if users else {}

    def connection() -> SMTP:
        made = SMTP(server, hostname="mail.test", tls_context=tls, require_starttls=tls is not None, loop=loop, **login)
        connections.append(made)
        return made

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
        loop.run_until_complete(_ended(connections))
        loop.close()


async def _ended(connections: list[SMTP]) -> None:
    """Close what connections came over, those under TLS too, while there is a loop to do it."""
    for one in connections:
        for transport in (one.transport, one._original_transport):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
    for _ in range(10):
        await asyncio.sleep(0)

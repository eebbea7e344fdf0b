"""Message delivery: one attempt per message within a time limit, over connections whose peers are verified."""

from __future__ import annotations

import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import httpx

from agents.notifications.stomp_delivering import Outgoing, PublishResult, publish
from broker.errors import BrokerError
from broker.fetching.web import Extensions, hard_end
from broker.notifications.model.channels import (
    AnyChannel,
    ChatChannel,
    MailChannel,
    StompChannel,
    WebhookChannel,
    usable_address,
    without_secrets,
)
from broker.notifications.model.messages import (
    DELIVERY_HEADER,
    INCIDENT_HEADER,
    Message,
    chat_body,
    mail_of,
    webhook_body,
    webhook_headers,
)

_LONGEST_SECRET = 4096


class NotDelivered(BrokerError):
    """A message was not delivered; the text holds no secrets."""


def deliver(channel: AnyChannel, message: Message, now: datetime, address: str = "") -> str:
    """Send a message once and return the answer of the other side.

    Args:
        channel: the channel to send by.
        message: the message to send.
        now: the time on this host (aware), for the date of a mail and the signature of a webhook.
        address: address of a subscriber; if empty, the addresses of the channel.

    Raises:
        NotDelivered: the message is not known to have got through; it may have if the connection broke at the end.
    """
    try:
        if isinstance(channel, MailChannel):
            return _mail(channel, message, now, address)
        if isinstance(channel, WebhookChannel):
            body = webhook_body(message)
            headers = webhook_headers(message, body, secret_in(channel.secret_file), int(now.timestamp()))
            return _post(channel.address, body, headers, channel)
        if isinstance(channel, StompChannel):
            return _stomp(channel, message)
        where = _chat_address(channel)
        return _post(where, chat_body(message, channel.style), {"Content-Type": "application/json"}, channel)
    except OSError as error:
        raise _not_reached(channel, error) from error


def secret_in(file: Path) -> bytes:
    """Return the secret in a file, without the line break at its end.

    Raises:
        NotDelivered: the file cannot be read, or is empty.
    """
    try:
        with file.open("rb") as stream:
            secret = stream.read(_LONGEST_SECRET + 1).rstrip(b"\r\n")
    except OSError as error:
        raise NotDelivered(f"a secret cannot be read: {error.strerror}", str(file), "see whose it is") from error
    if not secret or len(secret) > _LONGEST_SECRET:
        raise NotDelivered("the file holds no secret", str(file), "write the secret to it")
    return secret


def _chat_address(channel: ChatChannel) -> str:
    try:
        return usable_address(secret_in(channel.address_file).decode("ascii"))
    except ValueError:
        raise NotDelivered("the file holds no address of https", str(channel.address_file), "correct it") from None


def _not_reached(channel: AnyChannel, error: OSError) -> NotDelivered:
    """Describe a network fault, TLS included, for operators."""
    reason = error.strerror or str(error)
    return NotDelivered(f"not reached: {reason}"[:200], channel.where, "see whether it runs")


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))


def _post(address: str, body: bytes, headers: Mapping[str, str], channel: WebhookChannel | ChatChannel) -> str:
    """Send a body. Only the status of the answer counts; redirects are refused."""
    trust, limit_s, shown = _trust(channel.ca_file), channel.time_limit_s, without_secrets(address)

    async def exchange(extensions: Extensions) -> int:
        async with (
            httpx.AsyncClient(verify=trust, follow_redirects=False, timeout=limit_s) as client,
            client.stream(
                "POST", address, content=body, headers={"User-Agent": "gridbroker", **headers}, extensions=extensions
            ) as response,
        ):
            return response.status_code

    try:
        status = hard_end(limit_s, exchange)
    except httpx.TimeoutException as error:
        raise NotDelivered(f"no answer within {limit_s:g} s", shown, "see whether it runs") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error)[:200] or type(error).__name__
        raise NotDelivered(f"not reached: {reason}", shown, "see whether it runs") from error
    if not 200 <= status < 300:
        raise NotDelivered(f"answered with status {status}", shown, "see its log")
    return f"status {status}"


def _stomp(channel: StompChannel, message: Message) -> str:
    """Publish a message with the same body as a webhook."""
    headers = {DELIVERY_HEADER: message.delivery, INCIDENT_HEADER: message.incident}
    done = _publish(channel, [Outgoing(message.delivery, headers, webhook_body(message))])
    if done.failure is not None:
        raise NotDelivered(done.failure.what, done.failure.where, done.failure.remedy) from done.failure
    return "receipt"


def _publish(channel: StompChannel, messages: Sequence[Outgoing]) -> PublishResult:
    password = None if channel.password_file is None else secret_in(channel.password_file).decode("utf-8")
    until_s = time.monotonic() + channel.time_limit_s
    return publish(channel, messages, password, lambda: until_s - time.monotonic())


def publish_decisions(channel: StompChannel, messages: Sequence[Outgoing]) -> PublishResult:
    """Send messages once, in order; return how many of the first ones have receipts and why the others have none."""
    try:
        return _publish(channel, messages)
    except NotDelivered as error:
        return PublishResult(0, error)
    except OSError as error:
        return PublishResult(0, _not_reached(channel, error))


def _mail(channel: MailChannel, message: Message, now: datetime, address: str) -> str:
    to = (address,) if address else channel.to
    if not to:
        raise NotDelivered("nobody is named", channel.where, "name recipients with to")
    mail = mail_of(message, channel, to, now)
    where = f"{channel.host}:{channel.at_port}"
    try:
        with _connected(channel) as server:
            if channel.username is not None and channel.password_file is not None:
                server.login(channel.username, secret_in(channel.password_file).decode("utf-8"))
            refused = server.send_message(mail, channel.sender, list(to))
    except smtplib.SMTPRecipientsRefused as error:
        raise NotDelivered(f"all recipients are refused: {_codes(error.recipients)}", where, "correct to") from error
    except smtplib.SMTPResponseException as error:
        words = _words(error.smtp_error)
        raise NotDelivered(f"answered {error.smtp_code} {words}", where, "see the log of the mail server") from error
    except (smtplib.SMTPException, UnicodeError) as error:
        raise NotDelivered(f"not sent: {error}"[:200], where, "see the settings of the channel") from error
    return f"accepted, but not for {_codes(refused)}" if refused else "accepted"


def _codes(refused: Mapping[str, tuple[int, bytes]]) -> str:
    return ", ".join(f"{who} ({code})" for who, (code, _) in refused.items())[:200]


def _words(reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())[:200]


@contextmanager
def _connected(channel: MailChannel) -> Iterator[smtplib.SMTP]:
    """Open a session with the mail server, encrypted as configured and cut off at the time limit in any case."""
    limit_s, trust = channel.time_limit_s, _trust(channel.ca_file)
    server: smtplib.SMTP
    if channel.security == "tls":
        server = smtplib.SMTP_SSL(channel.host, channel.at_port, timeout=limit_s, context=trust)
    else:
        server = smtplib.SMTP(channel.host, channel.at_port, timeout=limit_s)
    # the library's limit applies to each read: a server that sends a byte from time to time never exceeds it
    watchdog = threading.Timer(limit_s, _cut, (server,))
    watchdog.daemon = True
    watchdog.start()
    try:
        if channel.security == "starttls":
            server.starttls(context=trust)
        yield server
        with suppress(smtplib.SMTPException, OSError):
            server.quit()
    finally:
        watchdog.cancel()
        server.close()


def _cut(server: smtplib.SMTP) -> None:
    connection = server.sock
    if connection is not None:
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)

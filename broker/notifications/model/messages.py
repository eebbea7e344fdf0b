"""The content of a message: as an object for programs, as a line for chat rooms, as a mail; and its signature."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any, Literal

from broker.notifications.model.channels import MailChannel

Event = Literal["opened", "resolved", "test"]
TIMESTAMP_HEADER = "X-Gridbroker-Timestamp"
SIGNATURE_HEADER = "X-Gridbroker-Signature"
DELIVERY_HEADER = "X-Gridbroker-Delivery"
INCIDENT_HEADER = "X-Gridbroker-Incident"
_LONGEST_SUBJECT = 180


@dataclass(frozen=True)
class Message:
    """A message about an incident.

    Attributes:
        incident: number of the incident; the same in all its messages.
        event: whether it began, is over, or is a test.
        kind: ``alarm``, ``reason``, ``task`` or ``test``.
        code: code of the alarm or reason.
        about: the source, agent, queue or task; for a reason, the rule that requested the message.
        severity: how grave it is.
        sentence: description in words.
        began_at: when the incident began (aware).
        resolved_at: when it was over; None if it is not.
        rule: rule that requested the message.
        link: address of a page; empty without one.
    """

    incident: str
    event: Event
    kind: str
    code: str
    about: str
    severity: str
    sentence: str
    began_at: datetime
    resolved_at: datetime | None
    rule: str
    link: str = ""

    @property
    def delivery(self) -> str:
        """Identifier shared by all attempts at one message, and different from all others of a channel."""
        return f"{self.incident}.{self.event}"

    @property
    def title(self) -> str:
        """Title on one line, without control characters."""
        word = {"opened": self.severity, "resolved": "resolved", "test": "test"}[self.event]
        return " ".join(_printable(f"[{word}] {self.sentence}").split())

    @property
    def span(self) -> str:
        """Start, or start and end, in UTC."""
        began = f"{self.began_at:%Y-%m-%d %H:%M} UTC"
        return f"since {began}" if self.resolved_at is None else f"{began} to {self.resolved_at:%Y-%m-%d %H:%M} UTC"

    def document(self) -> dict[str, Any]:
        """Return the message as an object; the same at each attempt."""
        return {
            "incident": self.incident, "delivery": self.delivery, "event": self.event, "kind": self.kind,
            "code": self.code, "about": self.about, "severity": self.severity, "sentence": self.sentence,
            "began_at": self.began_at.isoformat(),
            "resolved_at": None if self.resolved_at is None else self.resolved_at.isoformat(),
            "rule": self.rule, "link": self.link or None,
        }  # fmt: skip


def webhook_body(message: Message) -> bytes:
    """Return the body of a webhook: the message as JSON."""
    return json.dumps(message.document(), ensure_ascii=True, separators=(",", ":")).encode("ascii")


def webhook_headers(message: Message, body: bytes, secret: bytes, now_s: int) -> Mapping[str, str]:
    """Return the headers of a webhook, signed at ``now_s`` seconds since 1970: HMAC-SHA256 over ``SECONDS.BODY``."""
    return {
        "Content-Type": "application/json",
        TIMESTAMP_HEADER: str(now_s),
        SIGNATURE_HEADER: f"v1={signature(body, secret, now_s)}",
        DELIVERY_HEADER: message.delivery,
        INCIDENT_HEADER: message.incident,
    }


def signature(body: bytes, secret: bytes, now_s: int) -> str:
    """Return the signature of a body at a given second, in hexadecimal digits.

    >>> signature(b"{}", b"secret", 0)[:8]
    '4bbe8d39'
    """
    return hmac.new(secret, str(now_s).encode("ascii") + b"." + body, hashlib.sha256).hexdigest()


def chat_body(message: Message, style: Literal["slack", "mattermost"]) -> bytes:
    """Return the body for a webhook of Slack or Mattermost; names in it neither mention users nor act as markup."""
    lines = [_plain(message.title, style), _plain(f"{message.span}, incident {message.incident}", style)]
    if message.link:
        lines.append(f"<{message.link}|Open>" if style == "slack" else f"[Open]({message.link})")
    return json.dumps({"text": "\n".join(lines)}).encode("ascii")


def _plain(text: str, style: str) -> str:
    if style == "slack":
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "\\`*_~[]<>":
        text = text.replace(mark, f"\\{mark}")
    # an invisible word joiner prevents a name from mentioning somebody
    return text.replace("@", "@\u2060")


def mail_of(message: Message, channel: MailChannel, to: tuple[str, ...], now: datetime) -> EmailMessage:
    """Return the mail; the message about the end replies to the one about the beginning."""
    domain = channel.sender.rpartition("@")[2]
    mail = EmailMessage()
    mail["From"] = channel.sender
    mail["To"] = ", ".join(to)
    mail["Subject"] = message.title[:_LONGEST_SUBJECT]
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{message.delivery}@{domain}>"
    if message.event == "resolved":
        mail["In-Reply-To"] = mail["References"] = f"<{message.incident}.opened@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail[INCIDENT_HEADER] = message.incident
    lines = [_printable(message.sentence), "", message.span, f"incident {message.incident}, rule {message.rule}"]
    mail.set_content("\n".join([*lines, *([message.link] if message.link else [])]) + "\n")
    return mail


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() or character == "\n" else " " for character in text)

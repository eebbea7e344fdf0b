"""What a message says: as an object for programs, as a line for chat rooms, as a mail; and its signature."""

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
        incident: number of the incident; the same in all messages about it.
        event: that it began, that it is over, or that this is a test.
        kind: ``alarm``, ``reason``, ``task`` or ``test``.
        code: of the alarm or reason.
        about: the source, agent, queue or task; of a reason the rule that asks.
        severity: how grave it is.
        sentence: in words.
        began_at: when it began (aware).
        resolved_at: when it was over; None: it is not.
        rule: that asked for the message.
        link: address of a page; empty: none.
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
        """The same for all tries of one message, and different for all others of a channel."""
        return f"{self.incident}.{self.event}"

    @property
    def title(self) -> str:
        """One line without control characters."""
        word = {"opened": self.severity, "resolved": "resolved", "test": "test"}[self.event]
        return " ".join(_printable(f"[{word}] {self.sentence}").split())

    @property
    def span(self) -> str:
        """Since when, or from when until when, in UTC."""
        began = f"{self.began_at:%Y-%m-%d %H:%M} UTC"
        return f"since {began}" if self.resolved_at is None else f"{began} to {self.resolved_at:%Y-%m-%d %H:%M} UTC"

    def document(self) -> dict[str, Any]:
        """As an object; the same at each try."""
        return {
            "incident": self.incident, "delivery": self.delivery, "event": self.event, "kind": self.kind,
            "code": self.code, "about": self.about, "severity": self.severity, "sentence": self.sentence,
            "began_at": self.began_at.isoformat(),
            "resolved_at": None if self.resolved_at is None else self.resolved_at.isoformat(),
            "rule": self.rule, "link": self.link or None,
        }  # fmt: skip


def webhook_body(message: Message) -> bytes:
    """The body of a webhook: the message as JSON."""
    return json.dumps(message.document(), ensure_ascii=True, separators=(",", ":")).encode("ascii")


def webhook_headers(message: Message, body: bytes, secret: bytes, now_s: int) -> Mapping[str, str]:
    """Headers of a webhook, signed for the second ``now_s`` since 1970: HMAC-SHA256 over ``SECONDS.BODY``."""
    return {
        "Content-Type": "application/json",
        TIMESTAMP_HEADER: str(now_s),
        SIGNATURE_HEADER: f"v1={signature(body, secret, now_s)}",
        DELIVERY_HEADER: message.delivery,
        INCIDENT_HEADER: message.incident,
    }


def signature(body: bytes, secret: bytes, now_s: int) -> str:
    """The signature of a body at a second, in hexadecimal digits.

    >>> signature(b"{}", b"secret", 0)[:8]
    '4bbe8d39'
    """
    return hmac.new(secret, str(now_s).encode("ascii") + b"." + body, hashlib.sha256).hexdigest()


def chat_body(message: Message, style: Literal["slack", "mattermost"]) -> bytes:
    """The body for an incoming webhook of Slack or Mattermost; names in it neither mention users nor act as markup."""
    lines = [_plain(message.title, style), _plain(f"{message.span}, incident {message.incident}", style)]
    if message.link:
        lines.append(f"<{message.link}|Open>" if style == "slack" else f"[Open]({message.link})")
    return json.dumps({"text": "\n".join(lines)}).encode("ascii")


def _plain(text: str, style: str) -> str:
    if style == "slack":
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "\\`*_~[]<>":
        text = text.replace(mark, f"\\{mark}")
    # an invisible word joiner keeps a name from calling somebody
    return text.replace("@", "@\u2060")


def mail_of(message: Message, channel: MailChannel, to: tuple[str, ...], now: datetime) -> EmailMessage:
    """The mail; a message that says the end is an answer to the one that said the beginning."""
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
    return "".join(one if one.isprintable() or one == "\n" else " " for one in text)

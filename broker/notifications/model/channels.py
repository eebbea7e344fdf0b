"""Destinations of messages: mail, signed webhooks, chat rooms. Secrets are in files, never in the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from broker.notifications.model.publishing import PublishedDecisions
from broker.notifications.model.terms import Terms

_ADDRESS = r"^[^@\s<>,;:\"()\[\]\\\x00-\x1f\x7f]+@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?$"
MailAddress = Annotated[str, Field(max_length=254, pattern=_ADDRESS)]
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Channel(Terms):
    """Settings that every channel has.

    Attributes:
        time_limit_s: seconds that one message may take.
        most_per_hour: messages in an hour; what is more waits.
    """

    time_limit_s: float = Field(default=15.0, gt=0, le=120)
    most_per_hour: int = Field(default=60, ge=1)


class MailChannel(Channel):
    """Mail through a server (SMTP).

    Attributes:
        host: of the server.
        port: 587 for ``starttls``, 465 for ``tls``, 25 for ``none`` unless set.
        security: ``starttls``: encrypted once connected, and nothing is sent where the server cannot; ``tls``: from
            the first byte; ``none``: in the clear, and then without a password unless the server is this machine.
        ca_file: certificates of the authorities that are trusted; None: those of the system.
        sender: the address in ``From``.
        to: who gets it.
        username: with which it logs in; None: it does not.
        password_file: holds the password.
    """

    kind: Literal["mail"]
    host: str = Field(min_length=1, max_length=253)
    port: int | None = Field(default=None, ge=1, le=65_535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    ca_file: Path | None = None
    sender: MailAddress
    to: tuple[MailAddress, ...] = ()
    username: str | None = None
    password_file: Path | None = None

    @model_validator(mode="after")
    def _complete(self) -> MailChannel:
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file go together")
        if self.username is not None and self.security == "none" and self.host not in _LOOPBACK:
            raise ValueError("a password is not sent without encryption: set security to starttls or tls")
        return self

    @property
    def where(self) -> str:
        """The server and the recipients."""
        return f"{self.host}:{self.at_port} to {', '.join(self.to) or 'subscribers'}"

    @property
    def at_port(self) -> int:
        """The port in use."""
        return self.port or {"starttls": 587, "tls": 465, "none": 25}[self.security]


class WebhookChannel(Channel):
    """A JSON object sent to an address, signed where there is a secret.

    Attributes:
        address: ``https://...``; ``http`` only on this machine.
        secret_file: holds the secret that signs (HMAC-SHA256).
        ca_file: certificates of the authorities that are trusted; None: those of the system.
    """

    kind: Literal["webhook"]
    address: str = Field(max_length=2048)
    secret_file: Path
    ca_file: Path | None = None

    @field_validator("address")
    @classmethod
    def _usable(cls, address: str) -> str:
        return usable_address(address)

    @property
    def where(self) -> str:
        """The address without its possibly secret parts."""
        return without_secrets(self.address)


class ChatChannel(Channel):
    """A room of Slack or Mattermost, by its incoming webhook.

    Attributes:
        address_file: holds the address of the webhook, which is a secret itself.
        style: of links.
        ca_file: certificates of the authorities that are trusted; None: those of the system.
    """

    kind: Literal["chat"]
    address_file: Path
    style: Literal["slack", "mattermost"] = "slack"
    ca_file: Path | None = None

    @property
    def where(self) -> str:
        """The name of the room; the address is not shown."""
        return f"{self.style}, address in {self.address_file}"


class StompChannel(Channel):
    """A queue or topic of a message broker, by STOMP 1.2; a receipt is awaited for each message.

    Attributes:
        host: of the message broker.
        port: 61614 for ``tls``, 61613 for ``none`` unless set.
        security: ``tls``: from the first byte; ``none``: in the clear, and then without a password unless the message
            broker is on this machine.
        ca_file: certificates of the authorities that are trusted; None: those of the system.
        username: with which it logs in; None: it does not.
        password_file: holds the password.
        virtual_host: that is asked for; None: ``host``.
        destination: such as ``/topic/grid.alarms``.
        persistent: whether the message broker is asked to keep messages on disk.
        heart_beat_s: how often each side says at least that it is there; 0: not.
        decisions: those that are published to the destination; None: none are.
    """

    kind: Literal["stomp"]
    host: str = Field(min_length=1, max_length=253)
    port: int | None = Field(default=None, ge=1, le=65_535)
    security: Literal["tls", "none"] = "tls"
    ca_file: Path | None = None
    username: str | None = None
    password_file: Path | None = None
    virtual_host: str | None = Field(default=None, min_length=1, max_length=253)
    destination: str = Field(pattern=r"^[^\x00-\x20\x7f]{1,500}$")
    persistent: bool = True
    heart_beat_s: float = Field(default=10.0, ge=0, le=60)
    decisions: PublishedDecisions | None = None

    @model_validator(mode="after")
    def _complete(self) -> StompChannel:
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file go together")
        if self.username is not None and self.security == "none" and self.host not in _LOOPBACK:
            raise ValueError("a password is not sent without encryption: set security to tls")
        return self

    @property
    def at_port(self) -> int:
        """The port in use."""
        return self.port or {"tls": 61_614, "none": 61_613}[self.security]

    @property
    def where(self) -> str:
        """The message broker and the destination."""
        return f"{self.host}:{self.at_port} to {self.destination}"


AnyChannel = Annotated[MailChannel | WebhookChannel | ChatChannel | StompChannel, Field(discriminator="kind")]


def usable_address(address: str) -> str:
    """Return an address that messages may be sent to.

    Raises:
        ValueError: it is not an address, or would be reached without encryption.

    >>> usable_address("https://hooks.example.org/x")
    'https://hooks.example.org/x'
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is no http or https address")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise ValueError("is not encrypted: write https")
    if parts.username or parts.password:
        raise ValueError("holds a password")
    return address


def without_secrets(address: str) -> str:
    """Return scheme, host and the first part of the path; the rest of an address may be a secret.

    >>> without_secrets("https://hooks.example.org/services/T0/B0/xyz?key=1")
    'https://hooks.example.org/services/...'
    """
    parts = urlsplit(address)
    first, _, remainder = parts.path.lstrip("/").partition("/")
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}/{first}{'/...' if remainder or parts.query else ''}"

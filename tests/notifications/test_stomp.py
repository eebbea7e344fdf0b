"""Messages to a message broker by STOMP: only a receipt confirms that a message was sent."""

from __future__ import annotations

import errno
import json
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from pydantic import ValidationError
from stomp.exception import NotConnectedException
from stomp.transport import Transport

from agents.notifications import stomp_delivering
from agents.notifications.delivering import NotDelivered, deliver, publish_decisions
from agents.notifications.stomp_delivering import Outgoing
from broker.notifications.answers.findings import unreadable_secrets
from broker.notifications.model.channels import StompChannel
from broker.notifications.model.rules import NotificationSettings
from tests.notifications.model.test_messages import message
from tests.notifications.stomp_server import stomp_server

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
SECRET = "s3cret:of\\the broker"


def channel(port: int, **changes: Any) -> StompChannel:
    defaults = {"kind": "stomp", "host": "127.0.0.1", "port": port, "security": "none", "time_limit_s": 20,
             "destination": "/topic/grid.alarms"}  # fmt: skip
    return StompChannel.model_validate(defaults | changes)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    return file


def test_a_message_is_sent_once_its_receipt_has_arrived(secret: Path) -> None:
    with stomp_server(broker=SECRET) as server:
        target = channel(server.port, username="broker", password_file=secret, virtual_host="grid")
        assert deliver(target, message(), NOW) == "receipt"
    ((headers, body),) = server.sent
    assert headers["destination"] == "/topic/grid.alarms" and headers["persistent"] == "true"
    assert headers["X-Gridbroker-Delivery"] == headers["receipt"] == message().delivery
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == message().document()
    assert server.connected[0]["host"] == "grid" and server.connected[0]["heart-beat"] == "10000,10000"


def test_a_repeated_message_has_the_same_delivery_number() -> None:
    with stomp_server() as server:
        for _ in range(2):
            deliver(channel(server.port, persistent=False, heart_beat_s=0), message(), NOW)
    assert len({headers["X-Gridbroker-Delivery"] for headers, _ in server.sent}) == 1
    assert len({body for _, body in server.sent}) == 1
    assert "persistent" not in server.sent[0][0]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("cut", "cut before the receipt"), ("error", "no such destination"), ("malformed", "receipt")],
)
def test_a_message_without_a_receipt_counts_as_not_sent(fault: str, reason: str) -> None:
    with stomp_server() as server:
        server.faults.append(fault)
        with pytest.raises(NotDelivered, match=reason):
            deliver(channel(server.port), message(), NOW)
        assert deliver(channel(server.port), message(), NOW) == "receipt"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EBADF, "Bad file descriptor"),
        BrokenPipeError(errno.EPIPE, "Broken pipe"),
        AttributeError("'NoneType' object has no attribute 'sendall'"),
        NotConnectedException(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_cut_noticed_by_the_sender_keeps_earlier_receipts(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reading thread closes the socket of the sending thread, whose error depends on the timing."""
    send, sent_frames = Transport.send, list[bytes]()

    def failing_send(self: Transport, frame: bytes) -> None:
        if frame.startswith(b"SEND"):
            sent_frames.append(frame)
            if len(sent_frames) == 3:
                raise error
        send(self, frame)

    monkeypatch.setattr(Transport, "send", failing_send)
    with stomp_server() as server:
        server.faults += ["", "cut"]
        messages = [Outgoing(str(number), {}, b"{}") for number in range(3)]
        publication = publish_decisions(channel(server.port), messages)
    assert len(sent_frames) == 3 and publication.confirmed == 1
    assert "cut before the receipt" in str(publication.failure)


def test_a_message_with_a_receipt_is_sent_even_without_an_answer_to_the_goodbye(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stomp_delivering, "GOODBYE_S", 0.01)
    with stomp_server() as server:
        server.answers_goodbyes = False
        publication = publish_decisions(channel(server.port), [Outgoing("1", {}, b"{}")])
    assert (publication.confirmed, publication.failure, len(server.sent)) == (1, None, 1)


def test_a_silent_or_missing_server_is_given_up_in_time() -> None:
    with stomp_server() as server:
        server.faults.append("silent")
        with pytest.raises(NotDelivered, match=r"no receipt within 0\.5 s"):
            deliver(channel(server.port, time_limit_s=0.5), message(), NOW)
    with pytest.raises(NotDelivered, match="not reached"):
        deliver(channel(server.port), message(), NOW)


def test_a_refused_login_is_reported_without_the_password(secret: Path) -> None:
    with stomp_server(broker="another") as server:
        target = channel(server.port, username="broker", password_file=secret)
        with pytest.raises(NotDelivered, match="access refused") as error:
            deliver(target, message(), NOW)
    assert server.sent == [] and "s3cret" not in str(error.value)


def test_certificates_are_checked(tmp_path: Path) -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with stomp_server(context) as server:
        trusted = channel(server.port, security="tls", ca_file=tmp_path / "ca.pem")
        assert deliver(trusted, message(), NOW) == "receipt"
        with pytest.raises(NotDelivered, match="not trusted"):
            deliver(channel(server.port, security="tls"), message(), NOW)
    assert len(server.sent) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"host": "mq.example.org", "username": "a", "password_file": "/run/x"}, "not sent without encryption"),
        ({"username": "a"}, "go together"),
        ({"destination": "two words"}, "destination"),
    ],
)
def test_invalid_settings_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        channel(1, **changes)


def test_the_doctor_names_an_unreadable_password(tmp_path: Path) -> None:
    for changes, count in (({"username": "a", "password_file": tmp_path / "none"}, 1), ({}, 0)):
        unreadable = unreadable_secrets(NotificationSettings(channels={"mq": channel(1, **changes)}))
        assert len(unreadable) == count

"""Messages to a message broker by STOMP: a receipt makes them sent, and nothing else does."""

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


def channel(port: int, **given: Any) -> StompChannel:
    plain = {"kind": "stomp", "host": "127.0.0.1", "port": port, "security": "none", "time_limit_s": 20,
             "destination": "/topic/grid.alarms"}  # fmt: skip
    return StompChannel.model_validate(plain | given)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    return file


def test_a_message_is_sent_when_its_receipt_has_come(secret: Path) -> None:
    with stomp_server(broker=SECRET) as server:
        at = channel(server.port, username="broker", password_file=secret, virtual_host="grid")
        assert deliver(at, message(), NOW) == "receipt"
    ((headers, body),) = server.sent
    assert headers["destination"] == "/topic/grid.alarms" and headers["persistent"] == "true"
    assert headers["X-Gridbroker-Delivery"] == headers["receipt"] == message().delivery
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == message().document()
    assert server.connected[0]["host"] == "grid" and server.connected[0]["heart-beat"] == "10000,10000"


def test_the_same_message_again_has_the_same_number() -> None:
    with stomp_server() as server:
        for _ in range(2):
            deliver(channel(server.port, persistent=False, heart_beat_s=0), message(), NOW)
    assert len({headers["X-Gridbroker-Delivery"] for headers, _ in server.sent}) == 1
    assert len({body for _, body in server.sent}) == 1
    assert "persistent" not in server.sent[0][0]


@pytest.mark.parametrize(
    ("fault", "said"),
    [("cut", "cut before the receipt"), ("error", "no such destination"), ("malformed", "receipt")],
)
def test_without_a_receipt_nothing_was_sent(fault: str, said: str) -> None:
    with stomp_server() as server:
        server.faults.append(fault)
        with pytest.raises(NotDelivered, match=said):
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
def test_a_cut_that_the_sender_sees_first_keeps_the_receipts_that_came(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that reads closes the socket of the thread that sends: what that one sees depends on when."""
    send, sent = Transport.send, list[bytes]()

    def sending(self: Transport, frame: bytes) -> None:
        if frame.startswith(b"SEND"):
            sent.append(frame)
            if len(sent) == 3:
                raise error
        send(self, frame)

    monkeypatch.setattr(Transport, "send", sending)
    with stomp_server() as server:
        server.faults += ["", "cut"]
        messages = [Outgoing(str(number), {}, b"{}") for number in range(3)]
        found = publish_decisions(channel(server.port), messages)
    assert len(sent) == 3 and found.confirmed == 1
    assert "cut before the receipt" in str(found.failure)


def test_what_has_its_receipt_is_sent_whether_or_not_the_goodbye_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stomp_delivering, "GOODBYE_S", 0.01)
    with stomp_server() as server:
        server.answers_goodbyes = False
        found = publish_decisions(channel(server.port), [Outgoing("1", {}, b"{}")])
    assert (found.confirmed, found.failure, len(server.sent)) == (1, None, 1)


def test_a_server_that_is_silent_or_not_there_is_given_up_in_time() -> None:
    with stomp_server() as server:
        server.faults.append("silent")
        with pytest.raises(NotDelivered, match=r"no receipt within 0\.5 s"):
            deliver(channel(server.port, time_limit_s=0.5), message(), NOW)
    with pytest.raises(NotDelivered, match="not reached"):
        deliver(channel(server.port), message(), NOW)


def test_a_refused_login_says_so_without_the_password(secret: Path) -> None:
    with stomp_server(broker="another") as server:
        at = channel(server.port, username="broker", password_file=secret)
        with pytest.raises(NotDelivered, match="access refused") as found:
            deliver(at, message(), NOW)
    assert server.sent == [] and "s3cret" not in str(found.value)


def test_certificates_are_checked(tmp_path: Path) -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with stomp_server(context) as server:
        good = channel(server.port, security="tls", ca_file=tmp_path / "ca.pem")
        assert deliver(good, message(), NOW) == "receipt"
        with pytest.raises(NotDelivered, match="not trusted"):
            deliver(channel(server.port, security="tls"), message(), NOW)
    assert len(server.sent) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"host": "mq.example.org", "username": "a", "password_file": "/run/x"}, "not sent without encryption"),
        ({"username": "a"}, "go together"),
        ({"destination": "two words"}, "destination"),
    ],
)
def test_settings_that_cannot_work_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        channel(1, **given)


def test_the_doctor_names_a_password_that_cannot_be_read(tmp_path: Path) -> None:
    for given, count in (({"username": "a", "password_file": tmp_path / "none"}, 1), ({}, 0)):
        found = unreadable_secrets(NotificationSettings(channels={"mq": channel(1, **given)}))
        assert len(found) == count

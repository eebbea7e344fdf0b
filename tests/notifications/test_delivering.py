"""Messages to real local servers: accepting, refusing, silent, missing, or untrusted."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from agents.notifications.delivering import NotDelivered, deliver
from broker.notifications.model.channels import ChatChannel, MailChannel, WebhookChannel
from broker.notifications.model.messages import signature
from tests.fetching.web_server import DRIPPING, serving as silent_server
from tests.notifications.mail_server import mail_server
from tests.notifications.model.test_messages import message
from tests.notifications.web_server import receiver

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
SECRET = "s3cret-of-the-hook"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    return file


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    yield file


def mail(port: int, **changes: Any) -> MailChannel:
    defaults = {"kind": "mail", "host": "127.0.0.1", "port": port, "security": "none", "sender": "b@example.org",
             "to": ("ops@example.org", "dba@example.org"), "time_limit_s": 20}  # fmt: skip
    return MailChannel.model_validate(defaults | changes)


def hook(address: str, secret: Path, **changes: Any) -> WebhookChannel:
    return WebhookChannel.model_validate(
        {"kind": "webhook", "address": address, "secret_file": secret, "time_limit_s": 20, **changes}
    )


def test_a_mail_is_sent_encrypted_with_a_login(server_context: ssl.SSLContext, ca_file: Path, secret: Path) -> None:
    with mail_server(server_context, broker=SECRET) as server:
        channel = mail(server.port, security="starttls", ca_file=ca_file, username="broker", password_file=secret)
        assert deliver(channel, message(), NOW) == "accepted"
    ((mail_taken, recipients),) = server.mails
    assert recipients == ("ops@example.org", "dba@example.org") and server.encrypted == [True]
    assert mail_taken["X-Gridbroker-Incident"] == "i-1" and mail_taken["Subject"] == "[warning] BNL fails"


def test_a_mail_to_a_subscriber_goes_only_to_the_subscriber() -> None:
    with mail_server() as server:
        deliver(mail(server.port), message(), NOW, "ann@example.org")
    assert [recipients for _, recipients in server.mails] == [("ann@example.org",)]


def test_no_password_is_sent_over_an_unencrypted_connection(secret: Path, ca_file: Path) -> None:
    with mail_server(broker=SECRET) as server:
        channel = mail(server.port, security="starttls", ca_file=ca_file, username="broker", password_file=secret)
        with pytest.raises(NotDelivered, match="STARTTLS"):
            deliver(channel, message(), NOW)
    assert server.mails == []


def test_an_untrusted_certificate_is_refused(server_context: ssl.SSLContext, secret: Path) -> None:
    with mail_server(server_context) as server, pytest.raises(NotDelivered, match=r"(?i)certificate"):
        deliver(mail(server.port, security="starttls"), message(), NOW)
    with receiver(server_context) as web, pytest.raises(NotDelivered, match=r"(?i)certificate"):
        deliver(hook(web.address, secret), message(), NOW)
    assert (server.mails, web.got) == ([], [])


def test_the_answer_of_a_mail_server_is_reported_without_secrets(
    server_context: ssl.SSLContext, ca_file: Path, secret: Path
) -> None:
    with mail_server() as server:
        server.refuses.append("451 later, please")
        with pytest.raises(NotDelivered, match="answered 451 later, please"):
            deliver(mail(server.port), message(), NOW)
    with mail_server(server_context, broker="another") as server:
        channel = mail(server.port, security="starttls", ca_file=ca_file, username="broker", password_file=secret)
        with pytest.raises(NotDelivered) as error:
            deliver(channel, message(), NOW)
    assert "535" in str(error.value) and SECRET not in str(error.value)


def test_a_webhook_signature_covers_the_received_body(
    server_context: ssl.SSLContext, ca_file: Path, secret: Path
) -> None:
    with receiver(server_context) as web:
        assert deliver(hook(web.address, secret, ca_file=ca_file), message(), NOW) == "status 200"
    ((headers, body),) = web.got
    assert headers["X-Gridbroker-Timestamp"] == str(int(NOW.timestamp()))
    assert headers["X-Gridbroker-Signature"] == f"v1={signature(body, SECRET.encode(), int(NOW.timestamp()))}"
    assert web.documents[0]["incident"] == "i-1"


@pytest.mark.parametrize("style", ["slack", "mattermost"])
def test_a_chat_room_gets_one_text(style: Any, tmp_path: Path) -> None:
    with receiver() as web:
        (tmp_path / "address").write_text(f"{web.address}\n")
        channel = ChatChannel(kind="chat", style=style, address_file=tmp_path / "address")
        deliver(channel, message(), NOW)
    assert set(web.documents[0]) == {"text"} and "BNL fails" in web.documents[0]["text"]


@pytest.mark.parametrize(("status", "words"), [(500, "status 500"), (404, "status 404"), (302, "status 302")])
def test_other_answers_are_no_delivery_and_redirects_are_not_followed(status: int, words: str, secret: Path) -> None:
    with receiver() as web:
        web.answers.append(status)
        with pytest.raises(NotDelivered, match=words) as error:
            deliver(hook(web.address, secret), message(), NOW)
    assert len(web.got) == 1
    assert "secret" not in str(error.value)


def test_a_silent_slow_or_missing_server_is_given_up_in_time(secret: Path) -> None:
    with receiver() as web:
        web.answers.append(0)
        with pytest.raises(NotDelivered, match=r"no answer within 0\.3 s"):
            deliver(hook(web.address, secret, time_limit_s=0.3), message(), NOW)
    closed_address = web.address
    with pytest.raises(NotDelivered, match="not reached"):
        deliver(hook(closed_address, secret), message(), NOW)
    with pytest.raises(NotDelivered, match="not reached"):
        deliver(mail(web.port), message(), NOW)
    with silent_server(DRIPPING["body"]) as server:
        start_s = time.monotonic()
        with pytest.raises(NotDelivered):
            deliver(mail(server.port, time_limit_s=0.5), message(), NOW)
        assert time.monotonic() - start_s < 60


def test_an_unreadable_secret_is_named_by_its_file(tmp_path: Path) -> None:
    with receiver() as web:
        with pytest.raises(NotDelivered, match="No such file"):
            deliver(hook(web.address, tmp_path / "none"), message(), NOW)
        (tmp_path / "empty").write_text("\n")
        with pytest.raises(NotDelivered, match="holds no secret"):
            deliver(hook(web.address, tmp_path / "empty"), message(), NOW)
        (tmp_path / "address").write_text("http://example.org/x")
        with pytest.raises(NotDelivered, match="no address of https"):
            deliver(ChatChannel(kind="chat", address_file=tmp_path / "address"), message(), NOW)
    assert web.got == []

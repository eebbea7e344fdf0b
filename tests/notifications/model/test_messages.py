"""Messages as objects, chat lines and mail: signed, and harmless whatever the names."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from broker.notifications.model.backoff import pause_s
from broker.notifications.model.channels import MailChannel
from broker.notifications.model.messages import Message, chat_body, mail_of, webhook_body, webhook_headers

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
MAIL = MailChannel(kind="mail", host="h", sender="broker@example.org", to=("ops@example.org",))


def message(**changes: Any) -> Message:
    defaults = {
        "incident": "i-1", "event": "opened", "kind": "alarm", "code": "queue_failing", "about": "BNL",
        "severity": "warning", "sentence": "BNL fails", "began_at": NOW, "resolved_at": None, "rule": "r",
        "link": "https://broker.example.org/queues/BNL",
    }  # fmt: skip
    return Message(**(defaults | changes))


def test_a_receiver_can_check_the_signature() -> None:
    body = webhook_body(message())
    headers = webhook_headers(message(), body, b"secret", 1_785_585_600)
    signed_bytes = headers["X-Gridbroker-Timestamp"].encode() + b"." + body
    expected = "v1=" + hmac.new(b"secret", signed_bytes, hashlib.sha256).hexdigest()
    assert headers["X-Gridbroker-Signature"] == expected
    assert webhook_headers(message(), body, b"other", 1_785_585_600)["X-Gridbroker-Signature"] != expected
    assert webhook_headers(message(), body, b"secret", 1_785_585_601)["X-Gridbroker-Signature"] != expected
    assert headers["X-Gridbroker-Delivery"] == json.loads(body)["delivery"] == "i-1.opened"


def test_the_end_has_the_incident_of_the_beginning_and_its_own_delivery() -> None:
    end = message(event="resolved", resolved_at=NOW).document()
    assert (end["incident"], end["delivery"], end["resolved_at"]) == ("i-1", "i-1.resolved", NOW.isoformat())


def test_names_in_chat_are_neither_mentions_nor_markup() -> None:
    evil = "<!channel> @all [x](http://evil) *b* & \x1b[31m"
    slack = json.loads(chat_body(message(sentence=evil), "slack"))["text"]
    assert "<!channel>" not in slack and "&lt;!channel&gt;" in slack and "\x1b" not in slack
    assert slack.endswith("<https://broker.example.org/queues/BNL|Open>")
    room = json.loads(chat_body(message(sentence=evil), "mattermost"))["text"]
    assert "@all" not in room and r"\[x\](http://evil)" in room and r"\*b\*" in room
    assert room.endswith("[Open](https://broker.example.org/queues/BNL)")


def test_a_mail_has_a_subject_of_one_line_and_joins_the_thread_of_its_beginning() -> None:
    mail = mail_of(message(sentence="BNL\r\nBcc: evil@example.org"), MAIL, MAIL.to, NOW)
    assert mail["Subject"] == "[warning] BNL Bcc: evil@example.org" and mail["Bcc"] is None
    assert mail["Message-ID"] == "<i-1.opened@example.org>"
    assert mail["Auto-Submitted"] == "auto-generated"
    text = mail.get_content()
    assert "since 2026-08-01 12:00 UTC" in text and "incident i-1, rule r" in text
    end = mail_of(message(event="resolved", resolved_at=NOW), MAIL, MAIL.to, NOW)
    assert end["In-Reply-To"] == mail["Message-ID"] != end["Message-ID"]
    assert end["Subject"].startswith("[resolved]")


@pytest.mark.parametrize("tries", [0, 1, 10, 1000])
def test_pauses_double_up_to_the_limit(tries: int) -> None:
    assert pause_s(tries, 30.0, 1800.0) == min(1800.0, 30.0 * 2**tries)

"""Incidents selected by rules, and errors in settings, field by field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.notifications.settings_file import FILE, load_settings
from agents.service.configuration import ConfigurationError
from broker.domain.incident import Incident
from broker.notifications.model.rules import NotificationRule

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
MAIL = {"kind": "mail", "host": "smtp.example.org", "sender": "b@example.org", "to": ["ops@example.org"]}
HOOK = {"kind": "webhook", "address": "https://example.org/hook", "secret_file": "/run/secret"}
CHAT = {"kind": "chat", "address_file": "/run/address"}
RULE = {"name": "r", "to": ["ops"], "alarms": ["*"]}
GOOD: dict[str, Any] = {"channels": {"ops": MAIL, "hook": HOOK, "room": CHAT}, "rules": [RULE]}


def alarm(code: str = "queue_failing", about: str = "BNL", severity: Any = "warning") -> Incident:
    return Incident("alarm", code, about, severity, "s")


def rule(**changes: Any) -> NotificationRule:
    return NotificationRule.model_validate({"name": "r", "to": ["ops"], **changes})


def pairs_for(notification_rule: NotificationRule, *incidents: Incident) -> list[tuple[str, str]]:
    return [(incident.code, incident.about) for incident in notification_rule.asks_for(incidents)]


def test_alarms_are_chosen_by_code_subject_and_severity() -> None:
    incidents = alarm(), alarm("no_leader", "timeouts", "critical"), alarm("agent_paused", "cric", "info")
    assert len(pairs_for(rule(alarms=["*"]), *incidents)) == 2
    assert pairs_for(rule(alarms=["queue_*"]), *incidents) == [("queue_failing", "BNL")]
    assert pairs_for(rule(alarms=["*"], about=["B*"]), *incidents) == [("queue_failing", "BNL")]
    assert pairs_for(rule(alarms=["*"], severity="critical"), *incidents) == [("no_leader", "timeouts")]
    assert len(pairs_for(rule(alarms=["*"], severity="info"), *incidents)) == 3
    assert pairs_for(rule(reasons=["*"]), *incidents) == []


def test_a_reason_is_reported_when_enough_tasks_wait_for_it() -> None:
    few, many = (Incident("reason", "lowmemory", "", "warning", "s", tasks=tasks) for tasks in (19, 20))
    by_reason = rule(reasons=["low*"], tasks=20)
    assert pairs_for(by_reason, few, many) == [("lowmemory", "r")]
    assert pairs_for(rule(alarms=["*"]), many) == []


def test_short_incidents_are_not_reported() -> None:
    lasting = rule(alarms=["*"], lasts_min=10)
    assert not lasting.lasts_enough(NOW - timedelta(minutes=9), NOW)
    assert lasting.lasts_enough(NOW - timedelta(minutes=10), NOW)


def test_the_shipped_settings_notify_no_channel() -> None:
    settings = load_settings(None)
    assert (settings.channels, settings.rules) == ({}, ())


def test_valid_settings_are_accepted(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(yaml.safe_dump(GOOD))
    settings = load_settings(tmp_path)
    assert [rule.to for rule in settings.rules] == [("ops",)]
    assert settings.channels["hook"].where == "https://example.org/hook"


def test_the_examples_in_the_shipped_file_are_valid(tmp_path: Path) -> None:
    """Uncomment the examples as an operator would: the comment lines below each key are its value."""
    text = Path("config/notifications.yaml").read_text(encoding="utf-8")
    for empty in ("channels: {}", "rules: []", "subscriptions: {}"):
        assert empty in text
        text = text.replace(empty, empty.split(":")[0] + ":")
    head, _, rest = text.partition("channels:")
    (tmp_path / FILE).write_text(head + "channels:" + rest.replace("\n#", "\n"))
    settings = load_settings(tmp_path)
    assert (len(settings.channels), len(settings.rules), settings.subscriptions.mail) == (5, 3, "ops")


def with_rule(**changes: Any) -> dict[str, Any]:
    return {**GOOD, "rules": [{**RULE, **changes}]}


def with_channel(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**GOOD, "channels": {**GOOD["channels"], "new": {**base, **changes}}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (with_rule(to=["opps"]), "rules.r.to: there is no channel opps; did you mean ops?"),
        (with_rule(severity="bad"), "rules.0.severity: 'bad' is none of"),
        (with_rule(lasts_min=-1), "rules.0.lasts_min: -1 is less than 0"),
        (with_rule(alarms=[]), "rules.0: neither alarms nor reasons are named"),
        (with_rule(name="a b"), "rules.0.name: "),
        ({**GOOD, "rules": [RULE, RULE]}, "rules: two are called r"),
        (with_channel(HOOK, address="http://example.org/hook"), "address: is not encrypted: write https"),
        (with_channel(HOOK, address="https://u:p@example.org"), "address: holds a password"),
        (with_channel(HOOK, secret="s"), "channels.new.webhook.secret: is not known here"),
        (with_channel(MAIL, username="u"), "username and password_file go together"),
        (with_channel(MAIL, security="none", username="u", password_file="p"), "not sent without encryption"),
        (with_channel(MAIL, to=["a@b\r\nBcc: c@d"]), "channels.new.mail.to.0: "),
        (with_channel({"kind": "fax"}), "channels.new: "),
        ({**GOOD, "subscriptions": {"mail": "hook", "domains": ["a.org"]}}, "subscriptions.mail: hook sends no mail"),
        ({**GOOD, "subscriptions": {"mail": "ops"}}, "subscriptions.domains: name the domains"),
        ({**GOOD, "subscriptions": {"channels": ["x"]}}, "subscriptions.channels: there is no channel x"),
        ({"give_up_h": 0}, "give_up_h: 0 is not more than 0"),
        ({"pages": "x"}, "pages: is not known here"),
    ],
)
def test_an_invalid_setting_is_named_with_its_field_and_value(tmp_path: Path, content: Any, words: str) -> None:
    (tmp_path / FILE).write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigurationError) as error:
        load_settings(tmp_path)
    assert words in error.value.what
    assert str(tmp_path / FILE) in error.value.where

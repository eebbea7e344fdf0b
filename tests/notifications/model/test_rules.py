"""Which incidents rules are for, and what is wrong with settings, field by field."""

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


def rule(**given: Any) -> NotificationRule:
    return NotificationRule.model_validate({"name": "r", "to": ["ops"], **given})


def asked(one: NotificationRule, *found: Incident) -> list[tuple[str, str]]:
    return [(each.code, each.about) for each in one.asks_for(found)]


def test_alarms_are_chosen_by_code_subject_and_severity() -> None:
    found = alarm(), alarm("no_leader", "timeouts", "critical"), alarm("agent_paused", "cric", "info")
    assert len(asked(rule(alarms=["*"]), *found)) == 2
    assert asked(rule(alarms=["queue_*"]), *found) == [("queue_failing", "BNL")]
    assert asked(rule(alarms=["*"], about=["B*"]), *found) == [("queue_failing", "BNL")]
    assert asked(rule(alarms=["*"], severity="critical"), *found) == [("no_leader", "timeouts")]
    assert len(asked(rule(alarms=["*"], severity="info"), *found)) == 3
    assert asked(rule(reasons=["*"]), *found) == []


def test_a_reason_is_told_when_enough_tasks_wait_for_it() -> None:
    few, many = (Incident("reason", "lowmemory", "", "warning", "s", tasks=tasks) for tasks in (19, 20))
    one = rule(reasons=["low*"], tasks=20)
    assert asked(one, few, many) == [("lowmemory", "r")]
    assert asked(rule(alarms=["*"]), many) == []


def test_what_does_not_last_is_not_told() -> None:
    one = rule(alarms=["*"], lasts_min=10)
    assert not one.lasts_enough(NOW - timedelta(minutes=9), NOW)
    assert one.lasts_enough(NOW - timedelta(minutes=10), NOW)


def test_the_shipped_settings_tell_nobody() -> None:
    found = load_settings(None)
    assert (found.channels, found.rules) == ({}, ())


def test_good_settings_are_taken(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(yaml.safe_dump(GOOD))
    found = load_settings(tmp_path)
    assert [rule.to for rule in found.rules] == [("ops",)]
    assert found.channels["hook"].where == "https://example.org/hook"


def test_the_examples_in_the_shipped_file_are_good(tmp_path: Path) -> None:
    """As an operator would: the lines of comment below each key are its value."""
    text = Path("config/notifications.yaml").read_text(encoding="utf-8")
    for empty in ("channels: {}", "rules: []", "subscriptions: {}"):
        assert empty in text
        text = text.replace(empty, empty.split(":")[0] + ":")
    head, _, rest = text.partition("channels:")
    (tmp_path / FILE).write_text(head + "channels:" + rest.replace("\n#", "\n"))
    found = load_settings(tmp_path)
    assert (len(found.channels), len(found.rules), found.subscriptions.mail) == (5, 3, "ops")


def with_rule(**given: Any) -> dict[str, Any]:
    return {**GOOD, "rules": [{**RULE, **given}]}


def with_channel(base: dict[str, Any], **given: Any) -> dict[str, Any]:
    return {**GOOD, "channels": {**GOOD["channels"], "new": {**base, **given}}}


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
def test_what_is_wrong_is_named_with_its_field_and_value(tmp_path: Path, content: Any, words: str) -> None:
    (tmp_path / FILE).write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigurationError) as found:
        load_settings(tmp_path)
    assert words in found.value.what
    assert str(tmp_path / FILE) in found.value.where

"""Registers the feature ``notifications``."""

from __future__ import annotations

from broker.feature import Command, Feature

FEATURE = Feature(
    name="notifications",
    order=127,
    agents={"notifications": "agents.notifications.notifications:NotificationsAgent"},
    commands=(
        Command(
            "notify",
            "broker.notifications.commands.notify:app",
            "Notifications: channels and rules, messages sent, a test.",
            place=95,
            watched=("notify history", "notify decisions"),
        ),
    ),
    routes=("broker.notifications.routes.notifications",),
    pages=("broker.notifications.pages.subscribing",),
    incidents=(
        "broker.notifications.answers.incidents:alarm_incidents",
        "broker.notifications.answers.incidents:reason_incidents",
    ),
)

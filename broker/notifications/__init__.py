"""Notifications to people and programs: rules, channels, incidents and the outbox."""

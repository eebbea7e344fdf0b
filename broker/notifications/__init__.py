"""Telling people and programs what is wrong: rules, channels, incidents and the outbox."""

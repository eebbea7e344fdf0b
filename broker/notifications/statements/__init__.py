"""Incidents, the outbox and subscriptions as rows."""

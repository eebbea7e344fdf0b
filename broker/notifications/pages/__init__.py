"""Subscriptions on the page of a task."""

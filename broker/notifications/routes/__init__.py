"""Notifications and subscriptions over HTTP."""

"""Example rules for gridbroker."""

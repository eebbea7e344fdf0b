"""Timeouts and rebrokerage: which jobs have waited or run for too long, why, and what then."""

"""Filters of the production job brokerage."""

"""Filters of both job brokerages."""

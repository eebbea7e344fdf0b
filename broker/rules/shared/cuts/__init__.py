"""Cuts of both job brokerages."""

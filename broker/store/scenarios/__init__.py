"""Scenario files into the database and out of it."""

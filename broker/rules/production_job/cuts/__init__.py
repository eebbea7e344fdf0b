"""Cuts of the production job brokerage."""

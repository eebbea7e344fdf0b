"""Weights of the production job brokerage."""

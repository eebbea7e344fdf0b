"""Weights of the analysis job brokerage."""

"""Filters of the analysis job brokerage."""

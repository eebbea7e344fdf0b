"""Forecasts of starts, and how they are judged. Pure."""

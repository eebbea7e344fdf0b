"""Forecasts in the API."""

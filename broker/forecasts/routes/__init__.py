"""The HTTP API of forecasts of starts."""

"""The agent of forecasts."""

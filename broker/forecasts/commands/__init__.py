"""Commands of forecasts."""

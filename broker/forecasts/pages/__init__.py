"""The page of forecasts."""

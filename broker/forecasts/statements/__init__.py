"""The rows of forecasts, and what they are made from."""

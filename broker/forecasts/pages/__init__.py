"""The page of forecasts: when work will start, and how good forecasts were."""

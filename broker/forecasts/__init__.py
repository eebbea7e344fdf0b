"""When work will start, and how good the forecasts of it were."""

"""Answers about when work will start, with the age of each forecast, and about how good forecasts were."""

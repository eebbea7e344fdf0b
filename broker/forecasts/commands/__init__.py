"""Commands about forecasts of starts: ``broker forecast``."""

"""Pages of the service: the front page, agents and sources, alarms, plots, two times compared."""

"""Pages of the service.

The front page, agents and sources, alarms, plots, two times compared, and the description of the API.
"""
